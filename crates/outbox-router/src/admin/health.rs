//! The two probes. *Alive* asks only about our own tasks: restarting the router mends neither
//! PostgreSQL nor Kafka. *Ready* asks whether rows flow.

use relay::{State, source::publication::is_note};
use serde::Serialize;

use super::{reason::Reason, view::View};
use crate::monitor::SlotView;

/// An answer to a probe.
#[derive(Debug)]
pub struct Verdict {
    /// For the status line.
    pub health: Health,
    /// For people.
    pub body: Body,
}

/// Good or bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// 200.
    Good,
    /// 503.
    Bad,
}

/// What a probe says: `{"status": "ok" | "unavailable", "state": …, "reason": … }`.
#[derive(Debug, Serialize)]
pub struct Body {
    status: &'static str,
    state: &'static str,
    reason: Option<Reason>,
}

/// Whether our own tasks come round.
pub fn alive(view: &View<'_>) -> Verdict {
    verdict(view, view.stale_task().map(Reason::stale))
}

/// Whether rows flow, or would; or another router's do and we could take over.
pub fn ready(view: &View<'_>) -> Verdict {
    let reason = view.stale_task().map(Reason::stale).or_else(|| Reason::of_gap(view)).or_else(
        || match view.relay.snapshot.condition.state {
            State::Streaming => None,
            State::Standby => unfit_to_take_over(view),
            State::Starting | State::Blocked | State::Draining | State::Failed => {
                Some(Reason::of_condition(view).unwrap_or_else(|| Reason::not_streaming(view)))
            }
        },
    );
    verdict(view, reason)
}

/// A standby is healthy when it sees the slot in somebody's hands and nothing wrong with it.
fn unfit_to_take_over(view: &View<'_>) -> Option<Reason> {
    match &view.monitor.slot {
        SlotView::Unknown => Some(
            view.monitor
                .trouble
                .as_ref()
                .map_or_else(|| Reason::not_streaming(view), |failure| Reason::of(failure, view)),
        ),
        SlotView::Missing | SlotView::Seen(_) => {
            let defect = view.monitor.findings.iter().find(|finding| !is_note(finding));
            defect.map(|failure| Reason::of(failure, view))
        }
    }
}

fn verdict(view: &View<'_>, reason: Option<Reason>) -> Verdict {
    let (health, status) = match reason {
        None => (Health::Good, "ok"),
        Some(_) => (Health::Bad, "unavailable"),
    };
    let state = view.relay.snapshot.condition.state.as_str();
    Verdict { health, body: Body { status, state, reason } }
}
