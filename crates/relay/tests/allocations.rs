//! Once warm, the core allocates nothing per event: not for routing, not for the ledger, not for
//! acknowledgements.
//!
//! Warm means that the topics, and rows and transactions of the size, were seen before. Ids and
//! keys never repeat: what would remember them is found here.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in the helpers of a test, too, what is missing fails it"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    collections::BTreeSet,
    num::NonZeroI32,
    time::Duration,
};

use relay::{
    Acks, Action, DEBEZIUM, DEFAULT, Format, FrameOutcome, Input, Moment, Now, OutboxTable,
    Outboxes, PgTimestamp, Preset, Record, RecordSink, Refusal, RefusalReason, Relay,
    RelaySettings, Role, TableName, Ticket, TopicFacts, TopicId, Window,
    testing::{
        Source, samples,
        wire::{self, Value},
    },
};

/// Counts what this thread asks of the system's allocator.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[allow(unsafe_code, reason = "an allocator cannot be counted without being one")]
// SAFETY: every call goes to the system's allocator as it came; counting touches a thread-local
// without a destructor and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System`, as did all.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the pointer came from `System`, as did all.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// Stands in for the producer: keeps tickets by partition until they are acknowledged, and nothing
/// else.
#[derive(Default)]
struct Broker {
    partitions: [Vec<(Ticket, TopicId)>; PARTITIONS],
    topics: BTreeSet<TopicId>,
    headers: usize,
    offers: u64,
    /// Every so many offers the queue is full.
    full_every: Option<u64>,
}

impl RecordSink for Broker {
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        self.offers += 1;
        if self.full_every.is_some_and(|every| self.offers.is_multiple_of(every)) {
            return Err(Refusal { ticket, reason: RefusalReason::Full });
        }
        self.headers += record.headers.iter().count();
        // The set's one node was allocated while warming up: it holds eleven.
        self.topics.insert(record.topic);
        let partition = usize::try_from(record.partition).unwrap();
        self.partitions[partition].push((ticket, record.topic));
        Ok(())
    }
}

const PARTITIONS: usize = 6;
const OUTBOX: u32 = 16_400;
const JSONB: u32 = 3802;
const BYTEA: u32 = 17;
const ROWS_PER_PASS: u64 = 200;
const WARM_UP: u64 = 4;
const PASSES: u64 = 40;
/// Rows after the warm-up.
const MEASURED: u64 = (PASSES - WARM_UP) * ROWS_PER_PASS;
const TYPES: [&str; 3] = ["order", "invoice", "customer"];

/// What the rows of a run look like.
#[derive(Clone, Copy)]
struct Shape {
    rows_per_transaction: u64,
    preset: &'static Preset,
    format: Format,
    payload: u32,
    headers: Value<'static>,
    full_every: Option<u64>,
}

const BATCHES: Shape = Shape {
    rows_per_transaction: 100,
    preset: &DEFAULT,
    format: Format::Plain,
    payload: JSONB,
    headers: Value::Text(r#"{"tenant": "a", "n": 1, "none": null, "on": true}"#),
    full_every: None,
};

impl Shape {
    fn relation(&self) -> Vec<u8> {
        let name = |role| *self.preset.alternatives(role).first().unwrap();
        let columns = [
            (name(Role::Id), wire::TEXT),
            (name(Role::AggregateType), wire::TEXT),
            (name(Role::AggregateId), self.payload_or_text()),
            (name(Role::EventType), wire::TEXT),
            (name(Role::Payload), self.payload),
            ("headers", JSONB),
        ];
        wire::relation(OUTBOX, "outbox", &columns)
    }

    /// Where the payload is binary, so is the key: both are decoded.
    fn payload_or_text(&self) -> u32 {
        if self.payload == BYTEA { BYTEA } else { wire::TEXT }
    }

    /// One row, of the same size whatever its number is.
    fn row(&self, number: u64, position: u64) -> Vec<u8> {
        let aggregate_type =
            TYPES.into_iter().cycle().nth(usize::try_from(number % 3).unwrap()).unwrap();
        let id = format!("{number:016}");
        let (key, payload) = if self.payload == BYTEA {
            (format!("\\x{number:016x}"), format!("\\x{}", "c3a9".repeat(100)))
        } else {
            (format!("key-{number:016}"), format!("{{\"text\": \"{}\"}}", "x".repeat(400)))
        };
        let texts = [id.as_str(), aggregate_type, &key, "Happened", &payload].map(Value::Text);
        let values: Vec<_> = texts.into_iter().chain([self.headers]).collect();
        wire::insert(position, OUTBOX, &values)
    }

    /// Transactions with as many rows together as every pass has, and a keepalive.
    fn pass(&self, number: u64) -> Vec<Vec<u8>> {
        let rows = number * ROWS_PER_PASS..(number + 1) * ROWS_PER_PASS;
        let mut frames = Vec::new();
        for row in rows.clone() {
            let commit = 1_000 + row / self.rows_per_transaction * 100;
            if row % self.rows_per_transaction == 0 {
                frames.push(wire::begin(commit, 0));
            }
            frames.push(self.row(row, commit));
            if (row + 1) % self.rows_per_transaction == 0 {
                frames.push(wire::commit(commit, commit + 8));
            }
        }
        frames.push(wire::keepalive(1_000 + rows.end / self.rows_per_transaction * 100 - 50));
        frames
    }

    fn settings(&self) -> RelaySettings {
        let name = TableName { schema: "public".into(), name: "outbox".into() };
        let table = OutboxTable {
            preset: Some(self.preset),
            format: self.format,
            ..OutboxTable::with_defaults(name)
        };
        RelaySettings {
            outboxes: Outboxes { tables: vec![table], ..Outboxes::default() },
            window: Window { events: 1_000, bytes: 1 << 20 },
            row_bytes: 1 << 20,
            ..samples::settings()
        }
    }
}

struct Shell {
    relay: Relay,
    source: Source,
    broker: Broker,
    acks: Acks,
    at: Moment,
    /// Status updates that were asked for.
    updates: u64,
}

impl Shell {
    fn connected(shape: Shape) -> Self {
        let at = Moment::default();
        let relay = Relay::new(shape.settings(), at);
        let broker = Broker { full_every: shape.full_every, ..Broker::default() };
        let source = Source::of("outbox", OUTBOX, &[]);
        let acks = Acks::default();
        let mut shell = Self { relay, source, broker, acks, at, updates: 0 };
        shell.handle(Input::SinkReady);
        shell.pass(&[shape.relation()]);
        shell
    }

    fn now(&self) -> Now {
        Now { at: self.at, wall: PgTimestamp::from_micros(0) }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.relay.handle(input, self.now());
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.relay.next_action() {
            if let Action::Status(_) = action {
                self.updates += 1;
                continue;
            }
            let answer = if let Action::LookUpTopic(id, _) = action {
                let partitions = NonZeroI32::new(i32::try_from(PARTITIONS).unwrap()).unwrap();
                Some(Input::Topic(
                    id,
                    Ok(TopicFacts { partitions, max_message_bytes: Some(1 << 20) }),
                ))
            } else {
                self.source.answer(&action)
            };
            let Some(answer) = answer else { panic!("{action:?} in a run without failures") };
            self.relay.handle(answer, self.now());
        }
    }

    /// Frames in, acknowledgements back, a status update out.
    fn pass(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            while self.relay.frame(frame, self.now(), &mut self.broker) == FrameOutcome::NotTaken {
                self.act();
                if !self.relay.wants_wal() {
                    // The queue was full: acknowledgements make room, or, where none are owed, time
                    // does.
                    self.acknowledge();
                    self.pass_time();
                }
                assert!(self.relay.wants_wal());
            }
        }
        self.acknowledge();
        self.pass_time();
    }

    fn pass_time(&mut self) {
        self.at = self.at + Duration::from_millis(150);
        self.handle(Input::Tick);
    }

    /// By partition, so that transactions are settled in another order than they came.
    fn acknowledge(&mut self) {
        let mut acks = std::mem::take(&mut self.acks);
        acks.clear();
        for partition in self.broker.partitions.iter_mut().rev() {
            for (ticket, topic) in partition.drain(..) {
                acks.push(ticket, topic);
            }
        }
        self.handle(Input::Acks(&acks));
        self.acks = acks;
    }
}

/// What a warm core allocates in the passes after the warm-up, when all of them went through.
fn allocated_by(shape: Shape) -> u64 {
    let mut shell = Shell::connected(shape);
    let passes: Vec<_> = (0..PASSES).map(|number| shape.pass(number)).collect();
    let (warm_up, measured) = passes.split_at(usize::try_from(WARM_UP).unwrap());
    for frames in warm_up {
        shell.pass(frames);
    }
    let before = allocations();
    assert!(before > 0, "the count counts");
    for frames in measured {
        shell.pass(frames);
    }
    let allocated = allocations() - before;
    let snapshot = shell.relay.snapshot(shell.at);
    let events = PASSES * ROWS_PER_PASS;
    assert_eq!(snapshot.topics.iter().map(|topic| topic.acked).sum::<u64>(), events);
    assert_eq!(snapshot.transactions, events / shape.rows_per_transaction);
    assert_eq!(snapshot.confirmed, snapshot.received, "everything went through");
    assert_eq!(shell.broker.topics.len(), TYPES.len());
    assert_eq!(shell.broker.offers > events, shape.full_every.is_some(), "the queue was full");
    assert!(shell.updates >= PASSES, "the server was told after every pass");
    let headers = match (shape.format, shape.headers) {
        (Format::Debezium, _) => 1,
        (Format::Plain, Value::Text(_)) => 2 + 4,
        (Format::Plain, _) => 2,
    };
    assert_eq!(shell.broker.headers, headers * usize::try_from(events).unwrap());
    allocated
}

#[test]
fn large_transactions_allocate_nothing() {
    assert_eq!(allocated_by(BATCHES), 0);
}

#[test]
fn transactions_of_one_row_allocate_nothing() {
    assert_eq!(allocated_by(Shape { rows_per_transaction: 1, ..BATCHES }), 0);
}

#[test]
fn rows_without_headers_of_their_own_allocate_nothing() {
    assert_eq!(allocated_by(Shape { headers: Value::Null, ..BATCHES }), 0);
}

#[test]
fn binary_keys_and_payloads_allocate_nothing() {
    assert_eq!(allocated_by(Shape { payload: BYTEA, ..BATCHES }), 0);
}

#[test]
fn debezium_tables_and_records_allocate_nothing() {
    let shape = Shape { preset: &DEBEZIUM, format: Format::Debezium, ..BATCHES };
    assert_eq!(allocated_by(shape), 0);
}

#[test]
fn records_that_are_offered_twice_allocate_nothing() {
    assert_eq!(allocated_by(Shape { full_every: Some(17), ..BATCHES }), 0);
}

/// The exception: what cannot be borrowed from the row is put together on the heap by the JSON
/// parser. Two per member at the most, and none stays.
#[test]
fn escapes_and_nesting_in_a_row_s_headers_allocate_within_a_bound() {
    let nested = Value::Text(r#"{"tenant": "a", "n": [[1]], "none": null, "deep": {"x": [1]}}"#);
    let allocated = allocated_by(Shape { headers: nested, ..BATCHES });
    assert!(allocated <= MEASURED, "{allocated} for {MEASURED} rows");
    let escaped = Value::Text(r#"{"tenant": "a\"b", "n": 1, "none": null, "path": "c:\\d"}"#);
    let allocated = allocated_by(Shape { headers: escaped, ..BATCHES });
    assert!(allocated <= MEASURED * 2 * 2, "{allocated} for {MEASURED} rows");
}
