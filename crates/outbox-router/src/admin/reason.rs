//! A failure as `/status.json` and the probes show it: code, message, hint, position, and the
//! interval at risk.

use relay::Failure;
use serde::Serialize;

use super::view::View;
use crate::{
    codes::{Hint, to_type},
    monitor::{Gap, Mark},
};

/// A failure, or another reason why a probe does not pass.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reason {
    /// The stable code of the failure; `stale` and `not_streaming` are reasons without one.
    pub code: &'static str,
    /// What happened.
    pub message: String,
    /// What to type.
    pub hint: Option<String>,
    /// What of it is a command for the shell, or a statement for psql, in its order.
    pub commands: Vec<String>,
    /// The commit LSN of the transaction concerned, if one is.
    pub lsn: Option<String>,
    /// The interval in which rows may be missing; `null` where the failure is no open gap.
    pub interval: Option<IntervalView>,
}

/// Rows committed after `from` and up to `to` may be missing.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IntervalView {
    /// The last moment at which nothing was wrong; `null` when this process saw none.
    pub from: Option<MarkView>,
    /// When the defect was seen.
    pub to: MarkView,
}

/// A WAL position, and the server's clock at the same moment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MarkView {
    /// The position.
    pub lsn: String,
    /// UTC, ISO 8601; `null` where it is not known.
    pub at: Option<String>,
}

impl Reason {
    /// The reason of a failure, with the interval where the failure is the open gap.
    pub(super) fn of(failure: &Failure, view: &View<'_>) -> Self {
        let interval =
            view.gap().filter(|gap| gap.failure.code == failure.code).map(IntervalView::of);
        Self { interval, ..Self::of_failure(failure) }
    }

    /// The reason of a failure that is no gap.
    pub(crate) fn of_failure(failure: &Failure) -> Self {
        let (hint, commands) = texts(to_type(failure));
        Self {
            code: failure.code.as_str(),
            message: failure.message_with_causes(),
            hint,
            commands,
            lsn: failure.lsn.map(|lsn| lsn.to_string()),
            interval: None,
        }
    }

    /// The reason of the core's state, where the state has one.
    pub(super) fn of_condition(view: &View<'_>) -> Option<Self> {
        view.relay.snapshot.condition.reason.as_ref().map(|failure| Self::of(failure, view))
    }

    /// The reason of an open gap. A gap that the monitor found counts before the streaming task has
    /// acted on it.
    pub(super) fn of_gap(view: &View<'_>) -> Option<Self> {
        view.gap().map(|gap| Self::of(&gap.failure, view))
    }

    /// The reason of a task that has published nothing for too long.
    pub(crate) fn stale(task: &str) -> Self {
        Self::plain("stale", format!("the {task} task has reported nothing for too long"))
    }

    /// The reason of a state that has none of its own.
    pub(super) fn not_streaming(view: &View<'_>) -> Self {
        let state = view.relay.snapshot.condition.state;
        Self::plain("not_streaming", format!("the state is {}", state.as_str()))
    }

    /// A reason without a failure.
    pub(crate) fn plain(code: &'static str, message: String) -> Self {
        Self { code, message, hint: None, commands: Vec::new(), lsn: None, interval: None }
    }
}

/// A hint as `/status.json` shows it: the text, and the commands in it.
pub(crate) fn texts(hint: Option<Hint>) -> (Option<String>, Vec<String>) {
    let commands = hint.as_ref().map_or_else(Vec::new, |hint| hint.commands().to_vec());
    (hint.map(Hint::into_text), commands)
}

impl IntervalView {
    pub(super) fn of(gap: &Gap) -> Self {
        Self {
            from: gap.interval.from.as_ref().map(MarkView::of),
            to: MarkView::of(&gap.interval.to),
        }
    }
}

impl MarkView {
    pub(super) fn of(mark: &Mark) -> Self {
        Self { lsn: mark.lsn.to_string(), at: mark.at.clone() }
    }
}
