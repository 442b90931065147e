//! Tables, leases and a producer in memory, around one core.

use std::{num::NonZeroI32, time::Duration};

use pgoutput::PgTimestamp;

use super::super::*;
use crate::{
    clock::{Moment, Now},
    delivered::{RowVersion, ServerSession},
    failure::{Code, Failure},
    held::{ErrorPolicy, HoldKeys, OnError},
    ports::{RecordSink, Refusal, RefusalReason},
    progress::ticket::{Ticket, TransactionRef},
    protocol::{ExitReason, OnFailed},
    routing::{
        record::Record,
        table::{OutboxTable, Outboxes, TableName},
        topics::TopicFacts,
    },
    source::Oid,
    testing::{
        MemorySink,
        wire::{self, TEXT, Value},
    },
};

pub(super) const RELATION: u32 = 7;
const COLUMNS: [(&str, u32); 5] = [
    ("id", TEXT),
    ("aggregate_type", TEXT),
    ("aggregate_id", TEXT),
    ("event_type", TEXT),
    ("payload", TEXT),
];

/// A row of a table.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// No two rows have the same, whatever their tables.
    pub(super) id: u32,
    pub(super) table: TableIndex,
    pub(super) key: Option<&'static str>,
    pub(super) topic: &'static str,
    pub(super) state: RowState,
    pub(super) attempts: u32,
    pub(super) version: u32,
    pub(super) payload: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowState {
    Pending,
    Published,
    Abandoned,
}

pub(super) struct World {
    pub(super) core: Poller,
    pub(super) sink: MemorySink,
    /// The record of this row is refused by the producer itself, and reaches no broker.
    pub(super) not_taken: Option<&'static str>,
    /// The rows of every table.
    pub(super) table: Vec<Row>,
    tables: usize,
    pub(super) now: Moment,
    pub(super) waits: WaitsKept,
    pub(super) claimed: Claimed,
    pub(super) held: ShardSet,
    pub(super) workers: u32,
    /// `max.message.bytes` of every topic.
    pub(super) topic_limit: Option<usize>,
    /// How often the tables were dropped and made anew.
    pub(super) remade: u32,
    /// A table that was dropped, and no other one has its name.
    pub(super) dropped: Option<TableIndex>,
    /// The lease request that was answered last.
    pub(super) leases: RequestNumber,
    /// The present connection for rows.
    pub(super) session: ServerSession,
    /// Requests that are not answered yet.
    pub(super) asked: Vec<PollAction>,
    pub(super) exited: Option<ExitReason>,
}

pub(super) fn settings() -> PollerSettings {
    PollerSettings {
        outboxes: Outboxes { tables: vec![outbox(TableIndex(0))], ..Outboxes::default() },
        batch: 4,
        interval: Duration::from_secs(1),
        lease: LeaseLength::new(Duration::from_secs(10)),
        retry: RetryPolicy { jitter: 0, ..RetryPolicy::default() },
        on_error: ErrorPolicy::default(),
        hold_keys: HoldKeys::Yes,
        keys_max: 100,
        row_bytes: 1 << 20,
        shutdown_limit: Duration::from_secs(25),
        on_failed: OnFailed::Stay,
        seed: 1,
    }
}

pub(super) fn two_tables() -> PollerSettings {
    let tables = vec![outbox(TableIndex(0)), outbox(TableIndex(1))];
    PollerSettings { outboxes: Outboxes { tables, ..Outboxes::default() }, ..settings() }
}

fn outbox(table: TableIndex) -> OutboxTable {
    OutboxTable::with_defaults(TableName { schema: "public".to_owned(), name: name_of(table) })
}

fn name_of(table: TableIndex) -> String {
    format!("outbox_{}", table.0)
}

pub(super) fn dead_letters() -> ErrorPolicy {
    ErrorPolicy {
        bad_row: OnError::DeadLetter,
        rejected: OnError::DeadLetter,
        ..Default::default()
    }
}

impl World {
    pub(super) fn new(settings: PollerSettings) -> Self {
        let now = Moment::default();
        let tables = settings.outboxes.tables.len();
        Self {
            core: Poller::new(settings, now),
            sink: MemorySink::new(1_000),
            not_taken: None,
            table: Vec::new(),
            tables,
            now,
            waits: WaitsKept::InMemory,
            claimed: Claimed::No,
            held: ShardSet::ALL,
            workers: 1,
            topic_limit: None,
            remade: 0,
            dropped: None,
            leases: RequestNumber::default(),
            session: ServerSession::default(),
            asked: Vec::new(),
            exited: None,
        }
    }

    /// Pending rows with these keys, after those that are there.
    pub(super) fn insert(&mut self, keys: &[Option<&'static str>]) {
        self.insert_into(TableIndex(0), keys);
    }

    /// The same, in this table.
    pub(super) fn insert_into(&mut self, table: TableIndex, keys: &[Option<&'static str>]) {
        for key in keys {
            let id = u32::try_from(self.table.len()).unwrap();
            let (topic, state) = ("t", RowState::Pending);
            let payload = "{}".to_owned();
            let row = Row { id, table, key: *key, topic, state, attempts: 0, version: 1, payload };
            self.table.push(row);
        }
    }

    fn relation_of(&self, table: TableIndex) -> u32 {
        RELATION + 100 * self.remade + u32::try_from(table.0).unwrap()
    }

    pub(super) fn time(&self) -> Now {
        Now { at: self.now, wall: PgTimestamp::from_micros(0) }
    }

    pub(super) fn input(&mut self, input: PollInput<'_>) {
        let now = self.time();
        self.core.handle(input, now);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(action) = self.core.next_action() {
            if let PollAction::Exit(reason) = action {
                self.exited = Some(reason);
            } else {
                self.asked.push(action);
            }
        }
    }

    /// Answers everything that is asked, and produces, until nothing follows.
    pub(super) fn settle(&mut self) {
        for _ in 0..1_000 {
            self.collect();
            if let Some(action) = self.take_asked() {
                self.answer(action);
                continue;
            }
            let before = self.sink.produced().len();
            self.produce();
            if self.sink.produced().len() == before && self.asked.is_empty() {
                return;
            }
        }
        panic!("the core never rests");
    }

    pub(super) fn take_asked(&mut self) -> Option<PollAction> {
        if self.asked.is_empty() { None } else { Some(self.asked.remove(0)) }
    }

    pub(super) fn produce(&mut self) {
        let now = self.time();
        let not_taken = self.not_taken;
        let mut sink = Choosy { sink: &mut self.sink, not_taken, failed: None };
        while self.core.produce(&mut sink, || now) == Produced::More {}
        let failed = sink.failed;
        self.collect();
        if let Some(row) = failed {
            let failure = Failure::new(Code::RecordTooLarge, "the producer does not take it");
            self.input(PollInput::DeliveryFailed { transaction: Some(row), failure });
        }
    }

    /// Answers what is asked until the first record is produced, and nothing after that.
    pub(super) fn produce_first(&mut self) {
        for _ in 0..1_000 {
            match self.take_asked() {
                Some(action) => self.answer(action),
                None => self.produce(),
            }
            if !self.produced().is_empty() {
                return;
            }
        }
        panic!("nothing is produced");
    }

    /// Everything in flight is acknowledged, and what follows is answered.
    pub(super) fn ack_all(&mut self) {
        let acks = self.sink.ack_all();
        self.input(PollInput::Acks(&acks));
        self.settle();
    }

    /// Acknowledges and answers until nothing is in flight.
    pub(super) fn run(&mut self) {
        self.settle();
        while self.sink.in_flight() > 0 {
            self.ack_all();
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.input(PollInput::Tick);
    }

    pub(super) fn answer(&mut self, action: PollAction) {
        match action {
            PollAction::Describe(table) if self.dropped == Some(table) => {
                self.input(PollInput::Described(table, Err(no_table())));
            }
            PollAction::Settle(SettleRequest { table, .. }) if self.dropped == Some(table) => {
                self.input(PollInput::Settled(Err(no_table())));
            }
            PollAction::Describe(table) => {
                let (relation, name) = (self.relation_of(table), name_of(table));
                let messages = vec![wire::relation_message(relation, &name, &COLUMNS)];
                let described = Described { messages, waits: self.waits };
                self.input(PollInput::Described(table, Ok(described)));
            }
            PollAction::Lease(LeaseRequest::Hold { wanted }) => {
                let held = self.held.iter().take(usize::try_from(wanted[0]).unwrap()).collect();
                self.leases = self.leases.next();
                let of = |table| match TableIndex(table) {
                    table if self.dropped == Some(table) => TableLeases::nothing(0),
                    table => TableLeases {
                        relation: Some(Oid::from_u32(self.relation_of(table))),
                        held,
                        ..TableLeases::nothing(self.workers)
                    },
                };
                let tables = (0..self.tables).map(of).collect();
                self.input(PollInput::Leased(Ok(Leases { tables, request: self.leases })));
            }
            PollAction::Lease(LeaseRequest::Release) => {
                let tables = vec![TableLeases::nothing(0); self.tables];
                self.leases = self.leases.next();
                self.input(PollInput::Leased(Ok(Leases { tables, request: self.leases })));
            }
            PollAction::Fetch(request) => {
                let fetched = self.read(&request);
                self.input(PollInput::Fetched(Ok(fetched)));
            }
            PollAction::Settle(request) => {
                let settled = self.write(&request);
                self.input(PollInput::Settled(Ok(settled)));
            }
            PollAction::ReplaceSink { .. } => {
                let produced = std::mem::replace(&mut self.sink, MemorySink::new(1_000));
                drop(produced);
                self.input(PollInput::SinkReady);
            }
            PollAction::LookUpTopic(id, name) => {
                let answer = if name.as_str().ends_with("missing") {
                    Err(Failure::new(Code::TopicMissing, "no such topic"))
                } else {
                    Ok(TopicFacts { max_message_bytes: self.topic_limit, ..topic_facts() })
                };
                self.input(PollInput::Topic(id, answer));
            }
            PollAction::Exit(_) => {}
        }
    }

    pub(super) fn read(&self, request: &FetchRequest) -> Fetched {
        let of_table = self.table.iter().filter(|row| row.table == request.table);
        let pending = of_table.filter(|row| row.state == RowState::Pending);
        let wanted = pending
            .filter(|row| !request.passed_over.contains(&id(row.id), &row.key.map(Into::into)));
        let rows: Vec<PendingRow> = wanted
            .take(request.limit)
            .map(|row| (row, insert(self.relation_of(row.table), row)))
            .map(|(row, insert)| PendingRow {
                id: id(row.id),
                version: RowVersion::of_xmin(row.version),
                key: row.key.map(Into::into),
                bytes: insert.len(),
                insert,
                attempts: row.attempts,
                at: PgTimestamp::from_micros(0),
            })
            .collect();
        let more = if rows.len() == request.limit { More::Maybe } else { More::No };
        Fetched { rows, more, claimed: self.claimed, session: self.session }
    }

    pub(super) fn write(&mut self, request: &SettleRequest) -> Settled {
        if request.session != self.session {
            return Settled { written: Written::SessionLost, published: 0 };
        }
        let mut published = 0;
        for row in &mut self.table {
            let (id, now) = (id(row.id), RowVersion::of_xmin(row.version));
            let sent = request.published.iter().any(|sent| {
                let sent = sent.row();
                sent.id == id && sent.is_still(now)
            });
            if sent && row.state == RowState::Pending {
                row.state = RowState::Published;
                published += 1;
            }
            let failed = request.failed.iter().find(|failed| failed.id == id);
            if let Some(failed) = failed.filter(|failed| failed.version == now) {
                row.version += 1;
                row.attempts = failed.attempts;
                if failed.outcome == RowOutcome::Abandon {
                    row.state = RowState::Abandoned;
                }
            }
        }
        Settled { published, ..Settled::default() }
    }

    /// The server crashes, and a transaction is lost that has written a row. Another one gets its
    /// number, and writes this into the row.
    pub(super) fn lose_commit(&mut self, row: usize, payload: &str) {
        self.session = self.session.next();
        payload.clone_into(&mut self.table[row].payload);
    }

    pub(super) fn states(&self) -> Vec<RowState> {
        self.table.iter().map(|row| row.state).collect()
    }

    /// Somebody writes a row once more.
    pub(super) fn change(&mut self, row: usize) {
        self.table[row].version += 1;
    }

    /// The ids of the records that the present producer was given, in order.
    pub(super) fn produced(&self) -> Vec<String> {
        let records = self.sink.produced().iter();
        let id = |record: &crate::testing::ProducedRecord| {
            let header = record.headers.iter().find(|(name, _)| name == "id");
            let value = header.and_then(|(_, value)| value.clone()).unwrap_or_default();
            String::from_utf8(value).unwrap()
        };
        records.map(id).collect()
    }
}

/// The producer, which does not take the record of one row, and nothing after it.
struct Choosy<'a> {
    sink: &'a mut MemorySink,
    not_taken: Option<&'static str>,
    failed: Option<TransactionRef>,
}

impl RecordSink for Choosy<'_> {
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        let id = record.headers.iter().find(|header| header.name == "id");
        let id = id.and_then(|header| header.value);
        if self.failed.is_none() && self.not_taken.is_some_and(|row| id == Some(row.as_bytes())) {
            self.failed = Some(ticket.transaction());
        }
        match self.failed {
            Some(_) => Err(Refusal { ticket, reason: RefusalReason::Closed }),
            None => self.sink.produce(record, ticket),
        }
    }
}

fn no_table() -> Failure {
    Failure::new(Code::TableMissing, "no such table")
}

pub(super) fn topic_facts() -> TopicFacts {
    TopicFacts { partitions: NonZeroI32::new(3).unwrap(), max_message_bytes: None }
}

pub(super) fn id(id: u32) -> RowId {
    RowId([Box::from(id.to_string())].into())
}

fn insert(relation: u32, row: &Row) -> Vec<u8> {
    let id = row.id.to_string();
    let key = row.key.map_or(Value::Null, Value::Text);
    wire::insert_message(
        relation,
        &[
            Value::Text(&id),
            Value::Text(row.topic),
            key,
            Value::Text("made"),
            Value::Text(&row.payload),
        ],
    )
}
