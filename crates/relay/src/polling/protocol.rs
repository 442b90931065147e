//! What the polling core and its shell exchange: settings, inputs and actions.

use std::time::Duration;

use super::{
    lease_length::LeaseLength,
    pending_row::{PendingRow, RowKey},
    retry::RetryPolicy,
    row_id::RowId,
    shards::{ShardSet, share_of},
};
use crate::{
    delivered::{RowAt, RowVersion, SentVersion, ServerSession},
    failure::Failure,
    held::{ErrorPolicy, HoldKeys},
    ports::Acks,
    progress::ticket::TransactionRef,
    protocol::{ExitReason, OnFailed},
    routing::{record::TopicId, table::Outboxes, topic::TopicName, topics::TopicFacts},
    source::Oid,
};

/// The configuration of the core; it does not change while the process runs.
#[derive(Debug, Clone)]
pub struct PollerSettings {
    /// The tables that are polled, and how their rows are routed.
    pub outboxes: Outboxes,
    /// The most rows that are read at a time, and so the most that are in flight.
    pub batch: usize,
    /// How long a table without pending rows is left alone.
    pub interval: Duration,
    /// For how long a shard belongs to a worker that is not heard of.
    pub lease: LeaseLength,
    /// When a row that could not be delivered is tried again.
    pub retry: RetryPolicy,
    /// What becomes of a row that cannot be delivered.
    pub on_error: ErrorPolicy,
    /// Whether later rows of such a row's key wait for it.
    pub hold_keys: HoldKeys,
    /// The most keys that may wait at a time.
    pub keys_max: usize,
    /// The largest row that is produced, in bytes.
    pub row_bytes: usize,
    /// How long a shutdown may take.
    pub shutdown_limit: Duration,
    /// What to do where a person is needed.
    pub on_failed: OnFailed,
    /// Seeds the jitter of waits; the same seed gives the same run.
    pub seed: u64,
}

/// A polled table, by its place in [`PollerSettings::outboxes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableIndex(pub usize);

/// Everything that can happen to the core, except that rows are offered to the producer: see
/// [`super::Poller::produce`].
#[derive(Debug)]
pub enum PollInput<'a> {
    /// [`PollAction::Describe`] was answered.
    Described(TableIndex, Result<Described, Failure>),
    /// [`PollAction::Lease`] was answered.
    Leased(Result<Leases, Failure>),
    /// [`PollAction::Fetch`] was answered.
    Fetched(Result<Fetched, Failure>),
    /// [`PollAction::Settle`] was answered: everything in it is committed, or nothing is known.
    Settled(Result<Settled, Failure>),
    /// The table may have new rows: there was a NOTIFY.
    Notified(TableIndex),
    /// The broker acknowledged records.
    Acks(&'a Acks),
    /// A record failed: the sink is closed.
    DeliveryFailed {
        /// The record's row, if the failure concerns one record.
        transaction: Option<TransactionRef>,
        /// What failed.
        failure: Failure,
    },
    /// [`PollAction::ReplaceSink`] is done, or the first sink is ready.
    SinkReady,
    /// Why Kafka does not answer; `None` when it answers again.
    BrokersUnreachable(Option<Failure>),
    /// [`PollAction::LookUpTopic`] was answered.
    Topic(TopicId, Result<TopicFacts, Failure>),
    /// SIGTERM or SIGINT: deliver what is in flight, and exit.
    Shutdown,
    /// [`super::Poller::deadline`] has passed.
    Tick,
}

/// What the shell has to do. Of each kind at most one is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollAction {
    /// Read what a table looks like, and how its rows are marked. Answer: [`PollInput::Described`].
    Describe(TableIndex),
    /// Renew what is held, take more, or give everything back. Answer: [`PollInput::Leased`].
    Lease(LeaseRequest),
    /// Read pending rows. Answer: [`PollInput::Fetched`].
    Fetch(FetchRequest),
    /// Write what became of rows, all or none, in one transaction. Answer: [`PollInput::Settled`].
    Settle(SettleRequest),
    /// Purge and destroy the producer at once, and make a new one after `wait`. Answer:
    /// [`PollInput::SinkReady`].
    ReplaceSink {
        /// Zero, unless several producers have failed in a row.
        wait: Duration,
    },
    /// Ask Kafka for a topic's partitions. Answer: [`PollInput::Topic`].
    LookUpTopic(TopicId, TopicName),
    /// End the process.
    Exit(ExitReason),
}

/// A table, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The messages that a walsender would send of it: types, then the relation.
    pub messages: Vec<Vec<u8>>,
    /// Where the wait of a row that could not be delivered is kept.
    pub waits: WaitsKept,
}

/// Where the wait of a row that could not be delivered is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsKept {
    /// In the table, which has columns for attempts and for the time of the next: rows that wait,
    /// and with [`HoldKeys::Yes`] the later rows of their keys, are not read.
    InTable,
    /// By the core: the shell leaves out the keys of [`FetchRequest::passed_over`].
    InMemory,
}

/// What shards this worker should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseRequest {
    /// Renew what this worker holds of each table, and take free shards up to this number.
    Hold {
        /// Of each table, in the order of the configuration.
        wanted: Vec<u32>,
    },
    /// Give back everything, so that others may take it at once.
    Release,
}

/// What this worker holds. It counts from the moment at which the request was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leases {
    /// Of each table, in the order of the configuration.
    pub tables: Vec<TableLeases>,
    /// The request that this answers.
    pub request: RequestNumber,
}

/// What this worker holds of one table. Others may poll this table and none of its others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableLeases {
    /// The table: after a migration another one may bear the name. `None`: there is none.
    pub relation: Option<Oid>,
    /// The shards.
    pub held: ShardSet,
    /// How many workers poll the table, this one included.
    pub workers: u32,
    /// What this worker may take.
    pub share: Share,
    /// When the first lease of another worker ends, unless it is renewed.
    pub next_end: Option<Duration>,
}

impl TableLeases {
    /// Nothing, of a table that so many workers poll, whichever that is.
    pub const fn nothing(workers: u32) -> Self {
        let (held, share) = (ShardSet::NONE, Share::Equal);
        Self { relation: None, held, workers, share, next_end: None }
    }

    /// The most shards that this worker should hold, of a table that it can read.
    pub(super) fn due(&self) -> u32 {
        match self.share {
            Share::Equal => share_of(self.workers),
            Share::None => 0,
        }
    }
}

/// The number of a lease request of a worker: a later one has a larger number. A shard that another
/// worker has had in between was taken by a later request than the one whose answer was relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RequestNumber(pub u64);

impl RequestNumber {
    /// The number of the next request.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// How many shards of a table a worker should hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// As many as every other worker.
    Equal,
    /// None: the table is being handed over to the stream. What is in flight is finished first.
    None,
}

/// Which rows to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    /// Of this table.
    pub table: TableIndex,
    /// Whose keys belong to these shards.
    pub shards: ShardSet,
    /// At most so many, in the table's order.
    pub limit: usize,
    /// But these.
    pub passed_over: PassedOver,
}

/// Rows that are pending and not to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassedOver {
    /// Those of these keys.
    Keys(Vec<RowKey>),
    /// These.
    Rows(Vec<RowId>),
}

impl PassedOver {
    /// None.
    pub const NOTHING: Self = Self::Keys(Vec::new());

    /// Whether such a row is one of them.
    pub fn contains(&self, id: &RowId, key: &RowKey) -> bool {
        match self {
            Self::Keys(keys) => keys.contains(key),
            Self::Rows(rows) => rows.contains(id),
        }
    }
}

/// The pending rows that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// In the table's order.
    pub rows: Vec<PendingRow>,
    /// Whether there may be more rows than these.
    pub more: More,
    /// Whether reading has marked them as taken by this worker.
    pub claimed: Claimed,
    /// The connection that they were read on.
    pub session: ServerSession,
}

/// Whether there are more pending rows than were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// As many were read as were asked for, or as fit into memory.
    Maybe,
    /// Those that another transaction has locked: they may be free in a moment.
    Locked,
    /// These were all.
    No,
}

/// Whether rows were marked as taken when they were read (`PROCESSING`, `locked_until`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// They were: a row that is not produced is given back by [`SettleRequest::released`].
    Yes,
    /// They were only read.
    No,
}

/// What became of rows. Of a row that was changed since it was read nothing is written: it is
/// pending as whoever changed it has left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettleRequest {
    /// Rows of this table.
    pub table: TableIndex,
    /// The shards that their keys belong to. Nothing is written of `published` and `failed` unless
    /// this worker has had all of them since `as_of`: another worker may be about to deliver these
    /// rows again, and would leave out those that are marked meanwhile; or it has delivered some of
    /// them, and its lease has ended since. The last record of a key would not be its last row.
    pub shards: ShardSet,
    /// The lease request whose answer said that this worker has these shards, before the rows were
    /// read.
    pub as_of: RequestNumber,
    /// The connection on which the rows were read, and their versions count. On another one
    /// nothing is written.
    pub session: ServerSession,
    /// Acknowledged by Kafka: to be marked as published, where they are still pending at this
    /// version.
    pub published: Vec<SentVersion>,
    /// Not delivered, for a reason that lies in the row.
    pub failed: Vec<FailedRow>,
    /// Claimed, and not produced: pending again.
    pub released: Vec<RowAt>,
}

/// A row that could not be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedRow {
    /// The row.
    pub id: RowId,
    /// The version of it that could not be delivered.
    pub version: RowVersion,
    /// How often it could not be delivered, this time included.
    pub attempts: u32,
    /// Why.
    pub error: Failure,
    /// What follows.
    pub outcome: RowOutcome,
}

/// What follows from an attempt that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOutcome {
    /// It is tried again after this time.
    Retry(Duration),
    /// It is abandoned until a person requeues it.
    Abandon,
}

/// Whether a settlement was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Written {
    /// All of it.
    #[default]
    Yes,
    /// Only what it gives back: another worker has some of its shards.
    NotOurs,
    /// Nothing now: the connection is lost on which the rows were read. What was asked for before
    /// on that one may be committed.
    SessionLost,
}

/// A settlement is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// Whether what was asked for was written.
    pub written: Written,
    /// How many rows were marked as published. Rows that somebody else had marked, changed or
    /// deleted meanwhile are not among them.
    pub published: usize,
}

impl Settled {
    /// Nothing is written: the rows are not this worker's, or their table has gone.
    pub const NOT_OURS: Self = Self { written: Written::NotOurs, published: 0 };
}
