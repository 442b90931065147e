//! The three probes, with the meaning that they have for every source: *alive* asks only whether
//! the router's own tasks run, *ready* whether rows flow, and *started* whether the start is over,
//! however it went.

use relay::polling::PollState;

use super::{facts::Facts, view::View};
use crate::admin::{
    health::{Check, ProbeAnswer, StartProgress},
    reason::Reason,
};

pub(super) fn alive(view: &View<'_>) -> ProbeAnswer {
    answer("livez", view, tasks(&view.facts()))
}

/// Whether rows flow, or would if there were any, and may be polled; on a standby, whether this
/// worker could take shards over.
pub(super) fn ready(view: &View<'_>) -> ProbeAnswer {
    let facts = view.facts();
    let rows = match facts.state {
        PollState::Polling => facts.handed.map(Reason::of_failure),
        PollState::Standby => {
            let hindrance = facts.reason.or(facts.handed).or(facts.survey_failure());
            hindrance.map(Reason::of_failure)
        }
        PollState::Starting | PollState::Blocked | PollState::Draining | PollState::Failed => {
            Some(why(&facts))
        }
    };
    answer("readyz", view, tasks(&facts).into_iter().chain([("rows", rows)]))
}

pub(super) fn started(view: &View<'_>, progress: StartProgress) -> ProbeAnswer {
    let reason = match progress {
        StartProgress::Over => None,
        StartProgress::Going => Some(why(&view.facts())),
    };
    answer("startupz", view, [("start", reason)])
}

/// What this moment shows of the start.
pub(super) fn progress(view: &View<'_>) -> StartProgress {
    let report = &view.worker.poller;
    let is_final = match report.state {
        PollState::Polling | PollState::Standby | PollState::Failed => true,
        PollState::Starting | PollState::Blocked | PollState::Draining => false,
    };
    // A table that was read shows that the start is over, whatever came later.
    if is_final || report.tables.iter().any(|table| table.batches > 0) {
        StartProgress::Over
    } else {
        StartProgress::Going
    }
}

fn tasks(facts: &Facts<'_>) -> [Check; 2] {
    ["worker", "survey"].map(|task| {
        let is_stale = facts.stale_task == Some(task);
        (task, is_stale.then(|| Reason::stale(task)))
    })
}

/// The reason of the state, which may have none of its own.
fn why(facts: &Facts<'_>) -> Reason {
    let own = facts.reason.map(Reason::of_failure);
    own.unwrap_or_else(|| {
        let state = facts.state.as_str();
        Reason::plain("not_polling", format!("the state is {state}"))
    })
}

fn answer(
    probe: &'static str,
    view: &View<'_>,
    checks: impl IntoIterator<Item = Check>,
) -> ProbeAnswer {
    ProbeAnswer::of(probe, view.worker.poller.state.as_str(), checks)
}
