//! How the router fares at one moment, for log and service manager: see [`crate::service`].

use relay::polling::PollerReport;

use super::{health, view::View};
use crate::service::{Behind, Standing};

/// What the view shows.
pub(super) fn standing(view: &View<'_>) -> Standing {
    let facts = view.facts();
    let pending = facts.rows.map(|rows| rows.pending);
    Standing {
        start: health::progress(view),
        alive: health::alive(view).health,
        verdict: view.verdict(&facts).0,
        state: facts.report.state.as_str(),
        behind: pending.map_or(Behind::Unknown, |rows| Behind::Rows(rows.rows())),
        acked: acked(facts.report),
        now: view.now,
    }
}

/// Events that Kafka has acknowledged since the start of the process.
pub(super) fn acked(report: &PollerReport) -> u64 {
    let named: u64 = report.topics.iter().map(|topic| topic.acked).sum();
    named + report.other_topics.acked
}
