//! What a verdict is made from, taken from the reports of worker and survey at one moment.

use std::time::Duration;

use relay::{
    Failure,
    polling::{PollState, PollerReport, SHARDS},
};
use tokio::time::Instant;

use super::{halt, memory::Memory, waiting::Waiting};
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
    /// The worker's state, as it is judged.
    pub(super) state: PollState,
    /// The failure behind the state.
    pub(super) reason: Option<&'a Failure>,
    /// What the tables have together; `None` before they were read.
    pub(super) rows: Option<TableSurvey>,
    /// Rows that wait for another attempt.
    pub(super) waiting: Waiting<'a>,
    /// Pending rows that wait for nothing but their time.
    pub(super) not_due: Option<NotDue>,
    /// Why nobody polls the tables, or one of them: it is being handed to the stream, or was.
    pub(super) handed: Option<&'a Failure>,
    /// Rows of a table with a status of which nothing is known.
    pub(super) stranded: Option<&'a Failure>,
    /// For how long the oldest row has been pending: its age when it was read, and the time since.
    pub(super) oldest: Option<Duration>,
    /// For how long nothing has moved although something is outstanding.
    pub(super) still: Duration,
    /// Whether pending rows became fewer over the last minutes.
    pub(super) trend: PendingTrend,
    /// In what time nothing is pending at the present rate; `None` where it is not known, or the
    /// rows do not become fewer, or do not wait for their turn alone.
    pub(super) empty_in: Option<Duration>,
    /// At which part of the pipeline it stands.
    pub(super) blame: Blame,
}

impl<'a> Facts<'a> {
    /// The facts of one moment.
    pub(super) fn of(
        worker: &'a WorkerReport,
        survey: &'a SurveyReport,
        memory: &'a Memory,
        now: Instant,
    ) -> Self {
        let report = &worker.poller;
        let rows = sum(&survey.tables);
        let since_read =
            survey.read.map_or(Duration::ZERO, |read| now.saturating_duration_since(read.at));
        let (state, reason) = halt::condition(report, memory.halt.as_ref(), now);
        let not_due = rows.and_then(|rows| NotDue::of(&rows, since_read));
        let empty_in = memory.pace.empty_in(not_due.map_or(0, |later| later.rows));
        let mut facts = Self {
            report,
            survey,
            stale_task: stale_task(worker, survey, now),
            state,
            reason,
            rows,
            waiting: Waiting::of(report, survey),
            not_due,
            handed: survey.tables.iter().find_map(|table| table.handed.as_ref()),
            stranded: survey.tables.iter().find_map(|table| table.stranded.as_ref()),
            oldest: rows.and_then(|rows| rows.oldest()).map(|age| age + since_read),
            still: memory.without(now),
            trend: empty_in.map_or(PendingTrend::Steady, |_| PendingTrend::Falls),
            empty_in: None,
            blame: Blame::Nobody,
        };
        facts.blame = facts.find_blame();
        facts.empty_in = empty_in.filter(|_| facts.is_promised());
        facts
    }

    /// Rows that are pending, as they were counted last.
    pub(super) fn pending(&self) -> u64 {
        self.rows.map_or(0, |rows| rows.pending.rows())
    }

    /// Those of them that do not wait for their time alone.
    pub(super) fn due(&self) -> u64 {
        let figures = self.survey.tables.iter().filter_map(|table| table.figures.as_ref().ok());
        figures.map(due).sum()
    }

    /// Rows that were abandoned.
    pub(super) fn abandoned(&self) -> u64 {
        self.rows.map_or(0, |rows| rows.abandoned.rows())
    }

    /// Rows that could not be delivered: those that wait for another attempt, those that were
    /// abandoned, and those of an unknown status. Later rows of their keys may be pending behind
    /// them.
    pub(super) fn undelivered(&self) -> u64 {
        let stranded = self.rows.map_or(0, |rows| rows.stranded.rows());
        self.waiting.rows.saturating_add(self.abandoned()).saturating_add(stranded)
    }

    /// Whether the pace of the last minutes says when nothing is pending: somebody works at the
    /// rows, and none waits for something else than its turn.
    fn is_promised(&self) -> bool {
        goes_on(self.state) && self.handed.is_none() && self.undelivered() == 0
    }

    /// Whether something is to be done that nothing explains.
    pub(super) fn is_outstanding(&self) -> bool {
        let waits_for_nothing = self.due() > 0 && self.undelivered() == 0;
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
        let of_reason = || match self.reason {
            Some(failure) => Blame::of(failure),
            None => Blame::Router,
        };
        match (self.state, self.handed) {
            (PollState::Standby | PollState::Polling, Some(handed)) => Blame::of(handed),
            (PollState::Standby, None) => Blame::Holder,
            (PollState::Blocked | PollState::Starting | PollState::Failed, _) => of_reason(),
            (PollState::Polling, None) | (PollState::Draining, _) => self.blame_of_polling(),
        }
    }

    fn blame_of_polling(&self) -> Blame {
        if let (PollState::Polling, Some(stranded)) = (self.state, self.stranded) {
            return Blame::of(stranded);
        }
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

/// Pending rows of a table that do not wait for their time alone. Counting ends at a bound, and
/// rows that are not due may stand first: then the age of the first one that is due says that there
/// is one, which is read apart.
fn due(figures: &TableSurvey) -> u64 {
    let counted = figures.pending.rows().saturating_sub(figures.not_due);
    counted.max(u64::from(figures.oldest_seconds.is_some()))
}

/// Pending rows of a table that could be read now. Of those behind the bound of the count one is
/// due at least, if its age was read; whether somebody has a lock on it is not known.
pub(super) fn ready(figures: &TableSurvey) -> u64 {
    match figures.pending {
        RowCount::Exactly(_) => figures.ready,
        RowCount::AtLeast(_) => figures.ready.max(u64::from(figures.oldest_seconds.is_some())),
    }
}

/// Pending rows whose time has not come, and that were not tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotDue {
    pub(super) rows: u64,
    /// In what time the first of them is due; `None` where its time never comes.
    pub(super) first: Option<Duration>,
}

/// How the number of pending rows has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingTrend {
    /// They became fewer.
    Falls,
    /// They did not, or that is not known.
    Steady,
}

impl NotDue {
    fn of(figures: &TableSurvey, since_read: Duration) -> Option<Self> {
        let first = figures.due_in().map(|first| first.saturating_sub(since_read));
        Some(Self { rows: figures.not_due, first }).filter(|later| later.rows > 0)
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
