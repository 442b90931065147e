//! The three probes. *Alive* asks only whether the router's own tasks run, since a restart of the
//! router repairs neither PostgreSQL nor Kafka. *Ready* asks whether rows flow. *Started* asks
//! whether the start is over, however it went: what comes after is for *ready* to say.
//!
//! A probe is a list of checks, and fails by the first that fails. Without `?verbose` only that one
//! is shown, as JSON; with it all of them are, in the form of Kubernetes' own components.

use std::{
    fmt::Write as _,
    sync::{Arc, OnceLock},
};

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
    probe: &'static str,
    /// Each check's line in the answer to `?verbose`.
    lines: String,
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

/// One condition of a probe, with the reason why it does not hold.
pub(crate) type Check = (&'static str, Option<Reason>);

/// Whether the router's own tasks run.
pub fn alive(view: &View<'_>) -> ProbeAnswer {
    answer("livez", view, tasks(view))
}

/// Whether rows flow, or would if there were any; on a standby, whether another router holds the
/// slot and this one could take over.
pub fn ready(view: &View<'_>) -> ProbeAnswer {
    let stream = match view.relay.snapshot.condition.state {
        State::Streaming => None,
        State::Standby => unready_to_take_over(view),
        State::Starting | State::Blocked | State::Draining | State::Failed => {
            Some(Reason::of_condition(view).unwrap_or_else(|| Reason::not_streaming(view)))
        }
    };
    let rows = [("gaps", Reason::of_gap(view)), ("stream", stream)];
    answer("readyz", view, tasks(view).into_iter().chain(rows))
}

/// Whether the start is over.
pub fn started(view: &View<'_>, progress: StartProgress) -> ProbeAnswer {
    let reason = match progress {
        StartProgress::Over => None,
        StartProgress::Going => {
            Some(Reason::of_condition(view).unwrap_or_else(|| Reason::not_streaming(view)))
        }
    };
    answer("startupz", view, [("start", reason)])
}

/// Whether the router is still starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartProgress {
    /// PostgreSQL or Kafka has not answered yet, or not with what is needed.
    Going,
    /// The first session has begun, or the router stands by, or a person is needed. Waiting longer
    /// changes none of them, and a restart neither.
    Over,
}

/// Remembers that the start was over: a later moment may show less, and takes nothing back.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartLatch(Arc<OnceLock<()>>);

impl StartLatch {
    /// What is known of the start, after a moment that shows this.
    pub(crate) fn after(&self, progress: StartProgress) -> StartProgress {
        if progress == StartProgress::Over {
            self.0.get_or_init(|| ());
        }
        if self.0.get().is_some() { StartProgress::Over } else { progress }
    }
}

impl StartProgress {
    /// What this moment shows. Who asks repeatedly has a `StartLatch`.
    pub fn of(view: &View<'_>) -> Self {
        let snapshot = &view.relay.snapshot;
        let state_is_final = match snapshot.condition.state {
            State::Streaming | State::Standby | State::Failed => true,
            State::Starting | State::Blocked | State::Draining => false,
        };
        // The baseline is what the last session began with: without a session there is none.
        if state_is_final || snapshot.baseline.is_some() || view.gap().is_some() {
            Self::Over
        } else {
            Self::Going
        }
    }
}

impl ProbeAnswer {
    /// The answer of a probe that makes these checks, in this state.
    pub(crate) fn of(
        probe: &'static str,
        state: &'static str,
        checks: impl IntoIterator<Item = Check>,
    ) -> Self {
        let (mut lines, mut first) = (String::new(), None);
        for (name, reason) in checks {
            // Writing to a string does not fail.
            let _written = match &reason {
                None => writeln!(lines, "[+]{name} ok"),
                Some(reason) => {
                    let message = reason.message.replace('\n', " ");
                    writeln!(lines, "[-]{name} failed: {} {message}", reason.code)
                }
            };
            first = first.or(reason);
        }
        let (health, status) = match first {
            None => (ProbeResult::Passed, "ok"),
            Some(_) => (ProbeResult::Failed, "unavailable"),
        };
        Self { health, body: Body { status, state, reason: first }, probe, lines }
    }

    /// Every check as a line of text, and what follows from them.
    pub fn verbose(&self) -> String {
        let outcome = match self.health {
            ProbeResult::Passed => "passed",
            ProbeResult::Failed => "failed",
        };
        format!("{}{} check {outcome}\n", self.lines, self.probe)
    }
}

fn tasks(view: &View<'_>) -> [Check; 2] {
    [
        ("relay", view.is_relay_stale().then(|| Reason::stale("streaming"))),
        ("monitor", view.is_monitor_stale().then(|| Reason::stale("monitor"))),
    ]
}

/// Why this standby could not take over; `None` when the slot was read and nothing is wrong with
/// slot, publication and tables.
fn unready_to_take_over(view: &View<'_>) -> Option<Reason> {
    if let Some(failure) = &view.monitor.foreign_reader {
        return Some(Reason::of(failure, view));
    }
    let defect = view.monitor.findings.iter().find(|finding| !finding.is_note());
    match &view.monitor.slot {
        // PostgreSQL does not answer, or another server does, which is a finding.
        ObservedSlot::Unknown => {
            let failure = view.monitor.trouble.as_ref().or(defect);
            Some(
                failure.map_or_else(
                    || Reason::not_streaming(view),
                    |failure| Reason::of(failure, view),
                ),
            )
        }
        ObservedSlot::Missing | ObservedSlot::Seen(_) => {
            defect.map(|failure| Reason::of(failure, view))
        }
    }
}

fn answer(
    probe: &'static str,
    view: &View<'_>,
    checks: impl IntoIterator<Item = Check>,
) -> ProbeAnswer {
    ProbeAnswer::of(probe, view.relay.snapshot.condition.state.as_str(), checks)
}
