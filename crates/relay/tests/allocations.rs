//! Once warm, the core allocates nothing per event: not for routing, not for the ledger, not for acknowledgements. At a
//! hundred thousand events a second that is the difference between a router and an allocator with a side business.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    num::NonZeroI32,
    time::Duration,
};

use relay::{
    Acks, Action, Input, Moment, Now, OnFatal, OutboxTable, Outboxes, PgTimestamp, Record,
    RecordSink, Refusal, Relay, Settings, Step, TableName, Ticket, Timing, TopicFacts, TopicId,
    Window,
};
use wire::Value;

#[path = "../src/testing/wire.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the unit tests, which use all of it")]
mod wire;

/// Counts what this thread asks of the system's allocator.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[allow(unsafe_code, reason = "an allocator cannot be counted without being one")]
// SAFETY: every call goes to the system's allocator as it came; counting touches a thread-local without a destructor and
// allocates nothing.
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

/// Keeps tickets until they are acknowledged, and nothing else.
struct Tickets(Vec<(Ticket, TopicId)>);

impl RecordSink for Tickets {
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        assert!(record.headers.iter().count() >= 2);
        self.0.push((ticket, record.topic));
        Ok(())
    }
}

const OUTBOX: u32 = 16_400;
const ROWS: u64 = 100;

/// One transaction: rows of several topics, with headers and a binary payload.
fn transaction(at: u64) -> Vec<Vec<u8>> {
    let mut frames = vec![wire::begin(at, 0)];
    for (number, aggregate_type) in
        (0..ROWS).zip(["order", "invoice", "customer"].into_iter().cycle())
    {
        let id = number.to_string();
        let values = [
            id.as_str(),
            aggregate_type,
            id.as_str(),
            "Happened",
            "\\x00ff00ff",
            r#"{"tenant": "a", "n": 1, "none": null}"#,
        ];
        frames.push(wire::insert(at, OUTBOX, &values.map(Value::Text)));
    }
    frames.push(wire::commit(at, at + 8));
    frames.push(wire::keepalive(at + 8));
    frames
}

struct Shell {
    relay: Relay,
    sink: Tickets,
    acks: Acks,
    facts: TopicFacts,
    at: Moment,
}

impl Shell {
    fn now(&self) -> Now {
        Now { at: self.at, wall: PgTimestamp::from_micros(0) }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.relay.handle(input, self.now());
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.relay.next_action() {
            if let Action::LookUpTopic(id, _) = action {
                self.relay.handle(Input::Topic(id, Ok(self.facts)), self.now());
            }
        }
    }

    /// Frames in, acknowledgements back, a status update out.
    fn pass(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            while self.relay.frame(frame, self.now(), &mut self.sink) == Step::Held {
                self.act();
                assert!(self.relay.wants_wal());
            }
        }
        let mut acks = std::mem::take(&mut self.acks);
        acks.clear();
        for (ticket, topic) in self.sink.0.drain(..) {
            acks.push(ticket, topic);
        }
        self.handle(Input::Acks(&acks));
        self.acks = acks;
        self.at = self.at + Duration::from_millis(150);
        self.handle(Input::Tick);
    }
}

fn settings() -> Settings {
    let name = TableName { schema: "public".into(), name: "outbox".into() };
    Settings {
        outboxes: Outboxes { tables: vec![OutboxTable::with_defaults(name)] },
        window: Window { events: 1_000, bytes: 1 << 20 },
        row_bytes: 1 << 20,
        timing: Timing {
            status_interval: Duration::from_secs(3),
            silence_limit: Duration::from_secs(60),
        },
        drain: Duration::from_secs(25),
        on_fatal: OnFatal::Stay,
        seed: 1,
    }
}

#[test]
fn a_warm_core_allocates_nothing() {
    let at = Moment::default();
    let relay = Relay::new(settings(), at);
    let partitions = NonZeroI32::new(6).unwrap();
    let facts = TopicFacts { partitions, max_message_bytes: Some(1 << 20) };
    let mut shell = Shell { relay, sink: Tickets(Vec::new()), acks: Acks::default(), facts, at };
    let columns = [
        ("id", 25),
        ("aggregate_type", 25),
        ("aggregate_id", 25),
        ("event_type", 25),
        ("payload", 17),
        ("headers", 3802),
    ];
    shell.handle(Input::SinkReady);
    shell.handle(Input::Connected);
    shell.pass(&[wire::relation(OUTBOX, "outbox", &columns)]);
    let transactions: Vec<_> = (1..=40).map(|number| transaction(number * 100)).collect();
    let (warm_up, measured) = transactions.split_at(4);
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
    assert_eq!(snapshot.transactions, 40);
    assert_eq!(snapshot.confirmed, snapshot.received, "everything went through");
    assert_eq!(allocated, 0, "in {} events", 36 * ROWS);
}
