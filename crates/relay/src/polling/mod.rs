//! The polling source: rows are read from their tables by SQL, produced, and marked there after the
//! brokers have acknowledged them. There is no slot, so there is no position and no ledger: a row
//! is pending until it is marked.
//!
//! # Why this is right
//!
//! *Nothing is lost.* A row is found by its mark and not by a cursor, so it does not matter in
//! which order transactions commit. It is marked only after its acknowledgement (`batch`), so a
//! crash in between repeats it; at most the rows of one batch are in that state.
//!
//! *Order within a key.* A key belongs to a shard, and a shard to one worker at a time (`lease`). A
//! worker has one batch in flight, whose rows are in the table's order, and reads the next only
//! after the marks of this one are committed. Where a row of a key cannot be delivered, the rows
//! behind it in its key are not produced, neither of this batch nor of later ones (`waits`).
//!
//! *One worker per key.* A lease ends by the server's clock a time after its request was made, and
//! a worker counts that time from the moment at which it made the request. It produces only in the
//! first half of that time, and its producer gives a record up before as long as the other half has
//! passed. So whatever a worker that was frozen has produced is sent before its lease ends, or
//! never; and its marks are written only if nobody else has had its shards since it read the rows.
//!
//! Like the machine of the stream this is a function of (input, now) that answers with actions. In
//! reading order: `protocol` (what goes in and out), `inputs` (what each input means), `proceed`
//! (what follows), `produce` (from a row to a record), `settle` (what is written of a row),
//! `report`.

mod batch;
mod inputs;
mod lease;
mod lease_length;
mod pending_row;
mod polled_row;
mod proceed;
mod produce;
mod protocol;
mod report;
mod retry;
mod row_id;
mod settle;
mod shards;
mod table;
#[cfg(test)]
mod tests;
mod unanswered;
mod waits;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use self::{
    batch::{Asked, Batch},
    lease::Lease,
    table::Table,
};
use crate::{
    clock::Moment,
    failure::{Code, Failure},
    machine::{Backoff, SinkState, TopicCounters},
    progress::{WitnessStore, ticket::SessionId},
    protocol::ExitReason,
    routing::topics::Topics,
    session::Rows,
    source::TableOids,
    telemetry::Latencies,
};

pub use lease_length::LeaseLength;
pub use pending_row::{PendingRow, RowKey};
pub use polled_row::PolledRow;
pub use produce::Produced;
pub use protocol::{
    Claimed, Described, FailedRow, FetchRequest, Fetched, LeaseRequest, Leases, More, PassedOver,
    PollAction, PollInput, PollerSettings, RequestNumber, RowOutcome, SettleRequest, Settled,
    Share, TableIndex, TableLeases, WaitsKept, Written,
};
pub use report::{PollState, PolledTableReport, PollerReport};
pub use retry::RetryPolicy;
pub use row_id::RowId;
pub use shards::{SHARDS, ShardSet};

/// See the module's header.
pub struct Poller {
    settings: PollerSettings,
    rows: Rows,
    topics: Topics,
    tables: Vec<Table>,
    lease: Lease,
    work: Work,
    /// The table that was read last: the others come first.
    last: usize,
    sink: SinkState,
    /// Numbers producers, so that what a former one reports does not count.
    producer: SessionId,
    /// The number of the next batch's first ticket.
    next_ticket: u64,
    brokers_unreachable: Option<Failure>,
    /// Why PostgreSQL did not answer the last request.
    server: Option<Failure>,
    backoff: Backoff,
    /// The deadline of a shutdown; `None` if none was asked for.
    drain_by: Option<Moment>,
    /// How a shutdown ends that needs no longer than it may.
    drained: ExitReason,
    /// Why the process ends by itself, with [`OnFailed::Exit`].
    failed: Option<Failure>,
    exited: Exited,
    totals: Totals,
    actions: VecDeque<PollAction>,
}

/// What is being done with rows. One batch is in work at a time, so what a crash repeats is bounded
/// by it.
enum Work {
    /// Nothing.
    Idle,
    /// It is read what a table looks like.
    Describing,
    /// Rows are read.
    Fetching { request: FetchRequest, asked: Asked },
    /// Rows are produced and acknowledged.
    Producing(Box<Batch>),
    /// What became of them is written.
    Settling(Box<Settling>),
}

/// What became of a batch, until it is written.
struct Settling {
    batch: Box<Batch>,
    request: SettleRequest,
    /// Why it could not be written the last time.
    failure: Option<Failure>,
    /// When to write it again, since it could not be written.
    retry_at: Option<Moment>,
}

/// Whether [`PollAction::Exit`] was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exited {
    No,
    Yes,
}

#[derive(Debug, Default)]
struct Totals {
    topics: TopicCounters,
    errors: BTreeMap<Code, u64>,
    /// Batches that were given up because their shards had another worker, or the lease had ended.
    claims_lost: u64,
    reconnects: u64,
    batch_times: Latencies,
}

impl Poller {
    /// A core that has done nothing yet. It asks for a sink at once.
    pub fn new(settings: PollerSettings, at: Moment) -> Self {
        let tables = settings.outboxes.tables.len();
        let mut poller = Self {
            rows: Rows::new(TableOids::default()),
            topics: Topics::new(WitnessStore::Memory),
            tables: settings.outboxes.tables.iter().map(|t| Table::new(t.name.clone())).collect(),
            lease: Lease::new(settings.lease, tables),
            work: Work::Idle,
            last: 0,
            sink: SinkState::new(settings.seed),
            producer: SessionId::default(),
            next_ticket: 0,
            brokers_unreachable: None,
            server: None,
            backoff: Backoff::new(settings.seed),
            drain_by: None,
            drained: ExitReason::Drained,
            failed: None,
            exited: Exited::No,
            totals: Totals::default(),
            actions: VecDeque::new(),
            settings,
        };
        poller.actions.push_back(PollAction::ReplaceSink { wait: Duration::ZERO });
        poller.proceed(at);
        poller
    }

    /// The next thing to do.
    pub fn next_action(&mut self) -> Option<PollAction> {
        self.actions.pop_front()
    }
}
