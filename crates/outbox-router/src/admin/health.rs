//! The two probes. *Alive* asks only whether the router's own tasks run, since a restart of the
//! router repairs neither PostgreSQL nor Kafka. *Ready* asks whether rows flow.

use relay::State;
use serde::Serialize;

use super::{reason::Reason, view::View};
use crate::monitor::ObservedSlot;

/// An answer to a probe.
#[derive(Debug)]
pub struct ProbeAnswer {
    /// Decides the HTTP status.
    pub health: ProbeResult,
    /// The JSON that is shown.
    pub body: Body,
}

/// Whether the probe passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeResult {
    /// 200.
    Passed,
    /// 503.
    Failed,
}

/// What a probe says: `{"status": "ok" | "unavailable", "state": …, "reason": … }`.
#[derive(Debug, Serialize)]
pub struct Body {
    status: &'static str,
    state: &'static str,
    reason: Option<Reason>,
}

/// Whether the router's own tasks run.
pub fn alive(view: &View<'_>) -> ProbeAnswer {
    verdict(view, view.stale_task().map(Reason::stale))
}

/// Whether rows flow, or would if there were any; on a standby, whether another router holds the
/// slot and this one could take over.
pub fn ready(view: &View<'_>) -> ProbeAnswer {
    let reason = view.stale_task().map(Reason::stale).or_else(|| Reason::of_gap(view)).or_else(
        || match view.relay.snapshot.condition.state {
            State::Streaming => None,
            State::Standby => unready_to_take_over(view),
            State::Starting | State::Blocked | State::Draining | State::Failed => {
                Some(Reason::of_condition(view).unwrap_or_else(|| Reason::not_streaming(view)))
            }
        },
    );
    verdict(view, reason)
}

/// Why this standby could not take over; `None` when the slot was read and nothing is wrong with
/// slot, publication and tables.
fn unready_to_take_over(view: &View<'_>) -> Option<Reason> {
    match &view.monitor.slot {
        ObservedSlot::Unknown => Some(
            view.monitor
                .trouble
                .as_ref()
                .map_or_else(|| Reason::not_streaming(view), |failure| Reason::of(failure, view)),
        ),
        ObservedSlot::Missing | ObservedSlot::Seen(_) => {
            let defect = view.monitor.findings.iter().find(|finding| !finding.is_note());
            defect.map(|failure| Reason::of(failure, view))
        }
    }
}

fn verdict(view: &View<'_>, reason: Option<Reason>) -> ProbeAnswer {
    let (health, status) = match reason {
        None => (ProbeResult::Passed, "ok"),
        Some(_) => (ProbeResult::Failed, "unavailable"),
    };
    let state = view.relay.snapshot.condition.state.as_str();
    ProbeAnswer { health, body: Body { status, state, reason } }
}
