//! A failure as `/status.json` and the probes show it: code, what happened, what to type, what is
//! at risk.

use relay::Failure;
use serde::Serialize;

use super::view::View;
use crate::monitor::{Gap, Mark};

/// A failure as it is shown.
#[derive(Debug, Serialize)]
pub struct Reason {
    /// The stable code; `stale` and `not_streaming` have none of their own.
    pub code: &'static str,
    /// What happened.
    pub message: String,
    /// What to type.
    pub hint: Option<String>,
    /// Where in the WAL.
    pub lsn: Option<String>,
    /// What is at risk, for a gap.
    pub interval: Option<Interval>,
}

/// Rows committed after `from` and up to `to` may be missing.
#[derive(Debug, Serialize)]
pub struct Interval {
    /// The last moment at which all was well, if this process saw one.
    pub from: Option<Moment>,
    /// When the defect was seen.
    pub to: Moment,
}

/// WAL position and the server's clock.
#[derive(Debug, Serialize)]
pub struct Moment {
    /// The position.
    pub lsn: String,
    /// UTC, ISO 8601; `null`: not known.
    pub at: Option<String>,
}

impl Reason {
    /// A failure, with its interval where it is the open gap.
    pub(super) fn of(failure: &Failure, view: &View<'_>) -> Self {
        let interval = view.gap().filter(|gap| gap.failure.code == failure.code).map(Interval::of);
        Self {
            code: failure.code.as_str(),
            message: failure.message.clone(),
            hint: failure.hint.clone(),
            lsn: failure.lsn.map(|lsn| lsn.to_string()),
            interval,
        }
    }

    /// The relay's reason.
    pub(super) fn of_condition(view: &View<'_>) -> Option<Self> {
        view.relay.snapshot.condition.reason.as_ref().map(|failure| Self::of(failure, view))
    }

    /// An open gap. One that the monitor found counts before the relay has acted on it.
    pub(super) fn of_gap(view: &View<'_>) -> Option<Self> {
        view.gap().map(|gap| Self::of(&gap.failure, view))
    }

    /// A task that no longer comes round.
    pub(super) fn stale(task: &str) -> Self {
        Self::plain("stale", format!("the {task} task has not come round for too long"))
    }

    /// A state without a reason of its own.
    pub(super) fn not_streaming(view: &View<'_>) -> Self {
        let state = view.relay.snapshot.condition.state;
        Self::plain("not_streaming", format!("the state is {}", state.as_str()))
    }

    fn plain(code: &'static str, message: String) -> Self {
        Self { code, message, hint: None, lsn: None, interval: None }
    }
}

impl Interval {
    pub(super) fn of(gap: &Gap) -> Self {
        Self { from: gap.interval.from.as_ref().map(Moment::of), to: Moment::of(&gap.interval.to) }
    }
}

impl Moment {
    pub(super) fn of(mark: &Mark) -> Self {
        Self { lsn: mark.lsn.to_string(), at: mark.at.clone() }
    }
}
