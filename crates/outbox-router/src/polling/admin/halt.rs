//! What a person is needed for, from its first sight to its end. One look shows less than that: of
//! several rows that wait the worker reports one, now this and now that; and a table that a row
//! makes unreadable is read again every few seconds, and looks well until the row is met.

use std::time::Duration;

use relay::{
    Failure,
    polling::{PollState, PollerReport},
};
use tokio::time::Instant;

use super::waiting::lies_in_row;

/// A failure that is not met again within this time is over.
const OVER_AFTER: Duration = Duration::from_secs(5);

/// See the module's header.
#[derive(Debug, Clone)]
pub(super) struct Halt {
    failure: Failure,
    /// How many rows this worker knew to wait.
    waiting: u64,
    seen_at: Instant,
}

impl Halt {
    /// What is known of it after another look.
    pub(super) fn after(
        before: Option<&Self>,
        report: &PollerReport,
        now: Instant,
    ) -> Option<Self> {
        let Some(failure) = of_table(report) else {
            return before.filter(|halt| halt.lasts(report, now)).cloned();
        };
        let waiting = waiting(report);
        let first = before.map_or(failure, |halt| halt.first(failure, waiting));
        Some(Self { failure: first.clone(), waiting, seen_at: now })
    }

    /// The failure that is named: the first one, for as long as no row less waits.
    fn first<'f>(&'f self, reported: &'f Failure, waiting: u64) -> &'f Failure {
        let are_of_rows = lies_in_row(&self.failure) && lies_in_row(reported);
        let is_another = self.failure.code != reported.code;
        if are_of_rows && is_another && waiting >= self.waiting { &self.failure } else { reported }
    }

    /// Whether the failure may be met again, though the worker does not report it.
    fn lasts(&self, report: &PollerReport, now: Instant) -> bool {
        let is_delivered = lies_in_row(&self.failure) && waiting(report) == 0;
        report.state == PollState::Polling
            && !is_delivered
            && now.saturating_duration_since(self.seen_at) < OVER_AFTER
    }
}

/// State and reason, as they are judged.
pub(super) fn condition<'a>(
    report: &'a PollerReport,
    halt: Option<&'a Halt>,
    now: Instant,
) -> (PollState, Option<&'a Failure>) {
    match (of_table(report), halt) {
        (Some(reported), Some(halt)) => {
            (PollState::Failed, Some(halt.first(reported, waiting(report))))
        }
        (None, Some(halt)) if halt.lasts(report, now) => (PollState::Failed, Some(&halt.failure)),
        (Some(_) | None, _) => (report.state, report.reason.as_ref()),
    }
}

/// What a person is needed for, if it is in a table, or one of its rows.
fn of_table(report: &PollerReport) -> Option<&Failure> {
    let reason = report.reason.as_ref().filter(|_| report.state == PollState::Failed)?;
    let mut of_tables = report.tables.iter().filter_map(|table| table.failure.as_ref());
    of_tables.any(|failure| failure == reason).then_some(reason)
}

fn waiting(report: &PollerReport) -> u64 {
    report.tables.iter().map(|table| table.waiting).sum()
}
