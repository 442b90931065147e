//! The verdict and its history, as `/status.json` shows them.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::{epoch::epoch, reason::texts, view::View};
use crate::status::{Change, Facts, Timeline, ToDo, Verdict};

/// How many former verdicts are shown; the router remembers more.
const HISTORY_MAX: usize = 50;

/// The verdict.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VerdictView {
    /// `ok`, `catching_up`, `blocked`, `stalled`, `standby` or `failed`.
    pub word: &'static str,
    /// One sentence.
    pub sentence: String,
    /// The code of the reason, where there is one.
    pub code: Option<&'static str>,
    /// At which part of the pipeline it stands: `nobody`, `postgresql`, `router`, `kafka` or
    /// `holder`.
    pub blame: &'static str,
    /// Who has to act: the same part, or `person`, where it does not go on by itself.
    pub acts: &'static str,
    /// Since when the verdict holds, in seconds of the epoch.
    pub since: f64,
    /// What a person has to do; empty when nothing.
    pub to_do: Vec<ToDoView>,
    /// The age of the oldest event that is not acknowledged, in seconds; `null` when there is none.
    pub oldest_unacked_seconds: Option<f64>,
    /// For how long no position has moved although something is outstanding, in seconds.
    pub seconds_without_progress: f64,
}

/// What a person has to do.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToDoView {
    /// The code of what is wrong, if it has one.
    pub code: Option<&'static str>,
    /// What is wrong.
    pub message: String,
    /// What to type; `null` where nothing helps but waiting.
    pub hint: Option<String>,
    /// What of it is a command for the shell, or a statement for psql, in its order.
    pub commands: Vec<String>,
}

/// A former verdict.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChangeView {
    /// When it began, in seconds of the epoch.
    pub at: f64,
    /// Its word.
    pub word: &'static str,
    /// The code of its reason, where there was one.
    pub code: Option<&'static str>,
    /// Its sentence.
    pub sentence: String,
}

impl VerdictView {
    pub(super) fn of(view: &View<'_>, facts: &Facts<'_>, verdict: Verdict) -> Self {
        let since = view.observed.since(&verdict, SystemTime::now());
        let still = view.observed.progress.without(view.now);
        Self::at(verdict, since, facts.oldest_unacked, still)
    }

    /// A verdict that has held since then; how old the oldest event is that waits, and for how long
    /// nothing has moved.
    pub(crate) fn at(
        verdict: Verdict,
        since: SystemTime,
        oldest: Option<Duration>,
        still: Duration,
    ) -> Self {
        let acts = verdict.acts();
        let Verdict { word, sentence, code, blame, to_do, needs_person: _ } = verdict;
        Self {
            word: word.as_str(),
            sentence,
            code,
            blame: blame.as_str(),
            acts,
            since: epoch(since).as_secs_f64(),
            to_do: to_do.into_iter().map(ToDoView::of).collect(),
            oldest_unacked_seconds: oldest.map(|age| age.as_secs_f64()),
            seconds_without_progress: still.as_secs_f64(),
        }
    }
}

impl ToDoView {
    fn of(ToDo { code, message, hint }: ToDo) -> Self {
        let (hint, commands) = texts(hint);
        Self { code, message, hint, commands }
    }
}

impl ChangeView {
    /// The latest verdicts, the oldest first.
    pub(crate) fn all(timeline: &Timeline) -> Vec<Self> {
        let mut latest: Vec<Self> =
            timeline.changes().rev().take(HISTORY_MAX).map(Self::of).collect();
        latest.reverse();
        latest
    }

    fn of(Change { at, word, code, sentence }: &Change) -> Self {
        let (at, word) = (epoch(*at).as_secs_f64(), word.as_str());
        Self { at, word, code: *code, sentence: sentence.clone() }
    }
}
