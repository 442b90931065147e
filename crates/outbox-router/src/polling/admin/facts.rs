//! What a verdict is made from, taken from the reports of worker and survey at one moment.

use std::time::Duration;

use relay::{
    Failure,
    polling::{PollState, PollerReport, SHARDS},
};
use tokio::time::Instant;

use super::memory::Memory;
use crate::{
    monitor::Blame,
    polling::{
        report::WorkerReport,
        survey::{RowCount, SurveyReport, TableSurvey, sum},
    },
    status::facts::{MONITOR_STALE_AFTER, RELAY_STALE_AFTER},
};

/// After this time without a row that is published, whatever is in flight is waited for.
const OVERDUE: Duration = Duration::from_secs(2);

/// See the module's header.
pub(super) struct Facts<'a> {
    pub(super) report: &'a PollerReport,
    pub(super) survey: &'a SurveyReport,
    /// The task that has published nothing for too long, if there is one.
    pub(super) stale_task: Option<&'static str>,
    /// What the tables have together; `None` before they were read.
    pub(super) rows: Option<TableSurvey>,
    /// For how long the oldest row has been pending: its age when it was read, and the time since.
    pub(super) oldest: Option<Duration>,
    /// For how long nothing has moved although something is outstanding.
    pub(super) still: Duration,
    /// In what time nothing is pending at the present rate; `None` where it is not known, or the
    /// rows do not become fewer.
    pub(super) empty_in: Option<Duration>,
    /// At which part of the pipeline it stands.
    pub(super) blame: Blame,
}

impl<'a> Facts<'a> {
    /// The facts of one moment.
    pub(super) fn of(
        worker: &'a WorkerReport,
        survey: &'a SurveyReport,
        memory: &Memory,
        now: Instant,
    ) -> Self {
        let rows = sum(&survey.tables);
        let since_read =
            survey.read.map_or(Duration::ZERO, |read| now.saturating_duration_since(read.at));
        let seconds = rows.and_then(|rows| rows.oldest_seconds);
        let age = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let oldest = age.map(|age| age + since_read);
        let mut facts = Self {
            report: &worker.poller,
            survey,
            stale_task: stale_task(worker, survey, now),
            rows,
            oldest,
            still: memory.without(now),
            empty_in: memory.pace.empty_in().filter(|_| goes_on(worker.poller.state)),
            blame: Blame::Nobody,
        };
        facts.blame = facts.find_blame();
        facts
    }

    /// Rows that are pending, as they were counted last.
    pub(super) fn pending(&self) -> u64 {
        self.rows.map_or(0, |rows| rows.pending.rows())
    }

    /// Rows that could not be delivered: those that wait for another attempt, and those that were
    /// given up. Later rows of their keys may be pending behind them.
    pub(super) fn undelivered(&self) -> u64 {
        self.rows.map_or(0, |rows| rows.failed.plus(rows.abandoned).rows())
    }

    /// Whether something is to be done that nothing explains.
    pub(super) fn is_outstanding(&self) -> bool {
        let waits_for_nothing = self.pending() > 0 && self.undelivered() == 0;
        self.report.unacked > 0 || waits_for_nothing
    }

    /// Why the tables were not counted: all of them, or one.
    pub(super) fn survey_failure(&self) -> Option<&'a Failure> {
        let of_tables = self.survey.tables.iter().filter_map(|table| table.figures.as_ref().err());
        self.survey.failure.iter().chain(of_tables).next()
    }

    /// Whether other workers hold shards that this one does not.
    fn others_hold_shards(&self) -> bool {
        self.report.workers > 1
            && self.report.tables.iter().any(|table| table.shards.len() < SHARDS)
    }

    fn find_blame(&self) -> Blame {
        let of_reason = || match &self.report.reason {
            Some(failure) => Blame::of(failure),
            None => Blame::Router,
        };
        match self.report.state {
            PollState::Standby => Blame::Holder,
            PollState::Blocked | PollState::Starting | PollState::Failed => of_reason(),
            PollState::Polling | PollState::Draining => self.blame_of_polling(),
        }
    }

    fn blame_of_polling(&self) -> Blame {
        if !self.is_outstanding() || self.still < OVERDUE {
            return Blame::Nobody;
        }
        if self.report.unacked > 0 {
            Blame::Kafka
        } else if self.survey.failure.is_some() {
            Blame::Postgres
        } else if self.others_hold_shards()
            || self.rows.is_some_and(|rows| rows.processing.rows() > 0)
        {
            // This worker has nothing in flight, so it is another one that has the rows.
            Blame::Holder
        } else {
            Blame::Router
        }
    }
}

/// Whether the pace of the last minutes may go on: somebody works at the rows.
const fn goes_on(state: PollState) -> bool {
    match state {
        PollState::Polling | PollState::Draining | PollState::Standby => true,
        PollState::Starting | PollState::Blocked | PollState::Failed => false,
    }
}

fn stale_task(worker: &WorkerReport, survey: &SurveyReport, now: Instant) -> Option<&'static str> {
    let is_older = |at: Instant, limit| now.saturating_duration_since(at) > limit;
    if is_older(worker.at, RELAY_STALE_AFTER) {
        return Some("worker");
    }
    survey.ticked_at.is_some_and(|at| is_older(at, MONITOR_STALE_AFTER)).then_some("survey")
}

/// A count as people read it.
pub(super) fn counted(rows: RowCount) -> String {
    match rows {
        RowCount::Exactly(1) => "1 row".to_owned(),
        RowCount::Exactly(rows) => format!("{rows} rows"),
        RowCount::AtLeast(rows) => format!("at least {rows} rows"),
    }
}
