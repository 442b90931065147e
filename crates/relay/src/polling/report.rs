//! What the core reports: its state with a reason, and its numbers.

use std::collections::BTreeMap;

use super::{Exited, Poller, Work, shards::ShardSet, waits::Waits};
use crate::{
    clock::Moment,
    failure::{Case, Class, Code, Failure, Name},
    held::OnError,
    routing::{record::TopicId, table::TableName, topic::TopicName},
    telemetry::{Latencies, OtherTopics, TopicTotals},
};

/// The states, as printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PollState {
    /// Tables and leases are not known yet.
    Starting,
    /// Other workers have every shard.
    Standby,
    /// Rows are read, produced and marked.
    Polling,
    /// Nothing is acknowledged: Kafka cannot be reached, or refuses a record.
    Blocked,
    /// Stopping: what is in flight is delivered and marked.
    Draining,
    /// A person is needed; the process stays up.
    Failed,
}

impl PollState {
    /// Every state there is.
    pub const ALL: [Self; 6] =
        [Self::Starting, Self::Standby, Self::Polling, Self::Blocked, Self::Draining, Self::Failed];

    /// The word that metrics, `/status.json` and logs use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Standby => "standby",
            Self::Polling => "polling",
            Self::Blocked => "blocked",
            Self::Draining => "draining",
            Self::Failed => "failed",
        }
    }
}

/// A copy of the core's state and numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct PollerReport {
    /// What metrics and logs name.
    pub state: PollState,
    /// The failure behind the state; `None` where the state needs no reason.
    pub reason: Option<Failure>,
    /// The tables, in the order of the configuration.
    pub tables: Vec<PolledTableReport>,
    /// The first topics, in the order of their first use.
    pub topics: Vec<TopicTotals>,
    /// Totals of the other topics.
    pub other_topics: OtherTopics,
    /// Records that are not acknowledged.
    pub unacked: u64,
    /// Workers that share the tables, this one included.
    pub workers: u32,
    /// Batches that were given up because their shards had another worker, or the lease had ended.
    pub claims_lost: u64,
    /// Failures since the start, by code.
    pub errors: BTreeMap<Code, u64>,
    /// Connections to PostgreSQL that broke.
    pub reconnects: u64,
    /// How long batches with rows took, from the request for the rows to the commit of their marks.
    pub batch_times: Latencies,
}

/// One table.
#[derive(Debug, Clone, PartialEq)]
pub struct PolledTableReport {
    /// Its name.
    pub name: TableName,
    /// The shards that this worker holds.
    pub shards: ShardSet,
    /// Batches that were read, also those without rows.
    pub batches: u64,
    /// Rows that were read.
    pub fetched: u64,
    /// Rows that were marked as published.
    pub published: u64,
    /// Rows that somebody changed while they were sent, and that are sent again for that.
    pub changed: u64,
    /// Attempts that failed for a reason that lies in the row.
    pub failed: u64,
    /// Rows that were abandoned.
    pub abandoned: u64,
    /// Rows that wait for another attempt, as far as this process knows.
    pub waiting: u64,
    /// Why none of its rows, or one of them, cannot be produced.
    pub failure: Option<Failure>,
}

impl Poller {
    /// State and numbers.
    pub fn report(&self, at: Moment) -> PollerReport {
        let (state, reason) = self.condition(at);
        let unacked = match &self.work {
            Work::Producing(batch) => batch.unacked(),
            Work::Idle | Work::Describing | Work::Fetching { .. } | Work::Settling(_) => 0,
        };
        PollerReport {
            state,
            reason,
            tables: (0..self.tables.len()).filter_map(|index| self.table_report(index)).collect(),
            topics: self.totals.topics.own(self.topics.names()),
            other_topics: self.totals.topics.other(),
            unacked: count(unacked),
            workers: self.lease.workers(),
            claims_lost: self.totals.claims_lost,
            errors: self.totals.errors.clone(),
            reconnects: self.totals.reconnects,
            batch_times: self.totals.batch_times.clone(),
        }
    }

    /// The name of a topic.
    pub fn topic_name(&self, topic: TopicId) -> Option<&TopicName> {
        self.topics.name(topic)
    }

    fn table_report(&self, index: usize) -> Option<PolledTableReport> {
        let table = self.tables.get(index)?;
        let waits = self.waits(index);
        Some(PolledTableReport {
            name: table.name.clone(),
            shards: self.lease.held(index),
            batches: table.totals.batches,
            fetched: table.totals.fetched,
            published: table.totals.published,
            changed: table.totals.changed,
            failed: table.totals.failed,
            abandoned: table.totals.abandoned,
            waiting: count(waits.map_or(0, Waits::len)),
            failure: table.failure.clone().or_else(|| Some(self.of_waiting(waits?.failure()?))),
        })
    }

    /// Why a row waits. Of one that is abandoned by itself that is said, too.
    fn of_waiting(&self, failure: &Failure) -> Failure {
        let failure = failure.clone();
        match self.settings.on_error.of(failure.code) {
            OnError::Halt => failure,
            OnError::DeadLetter => failure.naming(Name::OnError, OnError::DeadLetter.as_str()),
        }
    }

    /// The rows of a table that wait for another attempt of this worker's.
    fn waits(&self, index: usize) -> Option<&Waits> {
        let table = self.tables.get(index)?;
        (!self.lease.held(index).is_empty()).then_some(&table.waits)
    }

    pub(super) fn condition(&self, at: Moment) -> (PollState, Option<Failure>) {
        if let Some(failure) = &self.failed {
            return (PollState::Failed, Some(failure.clone()));
        }
        if self.exited == Exited::Yes || self.drain_by.is_some() {
            return (PollState::Draining, None);
        }
        if let Some(failure) = self.mended_by_person() {
            return (PollState::Failed, Some(failure.clone()));
        }
        if let Some(failure) = self.blocked_by(at) {
            return (PollState::Blocked, Some(failure.clone()));
        }
        if let Some(failure) = self.of_postgres().next() {
            return (PollState::Starting, Some(failure.clone()));
        }
        if !self.lease.is_known() || self.tables.iter().all(|t| t.waits_kept().is_none()) {
            return (PollState::Starting, None);
        }
        // It holds back no other key, so it comes last.
        if let Some(failure) = self.row_that_halts() {
            return (PollState::Failed, Some(failure.clone()));
        }
        if (0..self.tables.len()).all(|table| self.lease.held(table).is_empty()) {
            let switching = self.lease.is_withheld().then(|| {
                let what = "the tables are being handed to the stream, and nobody polls them now";
                Failure::of(Case::Switching, what)
            });
            return (PollState::Standby, switching);
        }
        (PollState::Polling, None)
    }

    /// What PostgreSQL, or one of the tables, does not do.
    fn of_postgres(&self) -> impl Iterator<Item = &Failure> {
        // Leases may be renewed meanwhile, on another connection.
        let unwritten = match &self.work {
            Work::Settling(settling) => settling.failure.as_ref(),
            Work::Idle | Work::Describing | Work::Fetching { .. } | Work::Producing(_) => None,
        };
        let of_tables = self.tables.iter().filter_map(|table| table.failure.as_ref());
        self.server.iter().chain(unwritten).chain(of_tables)
    }

    /// What keeps whole tables from being delivered until a person mends it.
    pub(super) fn mended_by_person(&self) -> Option<&Failure> {
        let mut all = self.of_postgres().chain(&self.brokers_unreachable);
        all.find(|failure| failure.class() == Class::Mendable)
    }

    /// A row that waits for a person. One that is abandoned by itself after some attempts waits for
    /// nobody.
    fn row_that_halts(&self) -> Option<&Failure> {
        let halts = |failure: &Failure| self.settings.on_error.of(failure.code) == OnError::Halt;
        let mut waits = (0..self.tables.len()).filter_map(|index| self.waits(index));
        waits.find_map(|waits| waits.failure_that(halts))
    }

    fn blocked_by(&self, at: Moment) -> Option<&Failure> {
        let mut awaited = self.tables.iter().filter_map(|table| table.awaited);
        let topic = awaited.find_map(|topic| self.topics.refusal(topic));
        // Of a table without shards nothing is sent, whatever has happened before.
        let sending = self.tables.iter().enumerate();
        let mut sending = sending.filter(|(index, _)| !self.lease.held(*index).is_empty());
        let unanswered = sending.find_map(|(_, table)| table.unanswered.failure());
        let silent = self.brokers_unreachable.as_ref().or(topic).or(unanswered);
        silent.or_else(|| self.sink.repeated_failure(at))
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
