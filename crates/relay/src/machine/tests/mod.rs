//! Scripted inputs through the whole core. Invariants are those of the crate's documentation.

use std::num::NonZeroI32;

use super::*;
use crate::{
    Acks, BacklogFrom, BacklogSettings, ExitReason, Format, OutboxTable, Outboxes, PgTimestamp,
    ServerNotice, State, StatusUpdate, TableName, Timing, TopicFacts, Window,
    failure::{Case, Name},
    source::{self, Interval, Mark},
    testing::{
        Lane, MemorySink, Source, samples,
        wire::{self, TEXT, Value},
    },
};

mod answer_order;
mod backlog;
mod connection;
mod delivery;
mod drain;
mod final_status;
mod held;
mod holders;
mod isolation;
mod lost_topics;
mod other_routers;
mod outstanding;
mod races;
mod rows;
mod sinks;
mod stalls;
mod tables;
mod topics;
mod waiting;
mod witness;
mod world;

const OUTBOX: u32 = 16_400;
const OTHER: u32 = 16_500;
const COLUMNS: [(&str, u32); 5] = [
    ("id", 2950),
    ("aggregate_type", TEXT),
    ("aggregate_id", TEXT),
    ("event_type", TEXT),
    ("payload", TEXT),
];
const WINDOW: Window = Window { events: 4, bytes: 1 << 20 };
const TIMING: Timing =
    Timing { status_interval: Duration::from_secs(3), silence_limit: Duration::from_secs(10) };
/// What a producer causes that fails after it has lasted.
const REPLACED_AT_ONCE: Action = Action::ReplaceSink { wait: Duration::ZERO };

fn settings() -> RelaySettings {
    RelaySettings { window: WINDOW, row_bytes: 1 << 20, timing: TIMING, ..samples::settings() }
}

fn facts(partitions: i32) -> TopicFacts {
    TopicFacts { partitions: NonZeroI32::new(partitions).unwrap(), max_message_bytes: None }
}

fn failure(code: Code) -> Failure {
    Failure::new(code, "it failed")
}

fn gap(code: Code) -> Gap {
    let to = Mark { lsn: Lsn::from_u64(1_000), at: None };
    Gap::new(failure(code), Interval { from: None, to })
}

/// A core whose inputs the test gives.
struct Script {
    source: Source,
    relay: Relay,
    sink: MemorySink,
    at: Moment,
    actions: VecDeque<Action>,
}

impl Script {
    fn new(settings: RelaySettings) -> Self {
        let relay = Relay::new(settings, Moment::default());
        Self {
            relay,
            source: Source::of("outbox", OUTBOX, &COLUMNS),
            sink: MemorySink::new(1_000),
            at: Moment::default(),
            actions: VecDeque::new(),
        }
    }

    /// Streaming, the outbox described, its topic with three partitions known.
    fn streaming() -> Self {
        Self::streaming_with(settings())
    }

    fn streaming_with(settings: RelaySettings) -> Self {
        let mut script = Self::new(settings);
        script.handle(Input::SinkReady);
        script.connect();
        script.transaction(8, &["warm-up"]);
        script.settle();
        script.tick_after(100);
        script.actions.clear();
        script
    }

    fn now(&self) -> Now {
        let micros = i64::try_from(self.at.since_origin().as_micros()).unwrap();
        Now { at: self.at, wall: PgTimestamp::from_micros(micros) }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.relay.handle(input, self.now());
        self.collect();
        if let Some(deadline) = self.relay.deadline() {
            assert!(deadline > self.at, "a deadline that has passed makes the shell spin");
        }
    }

    fn collect(&mut self) {
        while let Some(action) = self.relay.next_action() {
            if let Action::Status(update) = &action {
                self.source.slot_at = self.source.slot_at.max(update.flush.lsn().as_u64());
            }
            self.actions.push_back(action);
        }
    }

    fn tick_after(&mut self, millis: u64) {
        self.at = self.at + Duration::from_millis(millis);
        self.handle(Input::Tick);
    }

    /// Ticks at each deadline of the core, for this long.
    fn run_for(&mut self, duration: Duration) {
        let end = self.at + duration;
        while let Some(deadline) = self.relay.deadline().filter(|deadline| *deadline <= end) {
            self.at = deadline.max(self.at);
            self.handle(Input::Tick);
        }
        self.at = end;
    }

    /// Time passes in a session whose server is alive.
    fn take_time(&mut self, duration: Duration) {
        for _ in 0..duration.as_secs() {
            self.handle(Input::BytesArrived);
            self.run_for(Duration::from_secs(1));
        }
    }

    /// The actions since the last call.
    fn actions(&mut self) -> Vec<Action> {
        self.collect();
        self.actions.drain(..).collect()
    }

    /// Every check of a connection attempt passes.
    fn answer(&mut self) {
        let mut next = self.source.answer(&Action::Connect);
        while let Some(input) = next.take() {
            self.handle(input);
            let last = self.actions.back();
            if let Some(answer) = last.and_then(|action| self.source.answer(action)) {
                self.actions.pop_back();
                next = Some(answer);
            }
        }
    }

    fn connect(&mut self) {
        self.run_for(Duration::from_secs(40));
        assert!(self.actions().contains(&Action::Connect));
        self.answer();
        self.frame(&wire::relation(OUTBOX, "outbox", &COLUMNS));
        self.frame(&wire::relation(OTHER, "orders", &COLUMNS));
    }

    fn frame(&mut self, payload: &[u8]) -> FrameOutcome {
        let step = self.relay.frame(payload, self.now(), &mut self.sink);
        self.collect();
        step
    }

    fn oversized(&mut self, announced: usize, prefix: &[u8]) -> FrameOutcome {
        let step = self.relay.oversized(announced, prefix, self.now(), &mut self.sink);
        self.collect();
        step
    }

    /// Offers frames as the shell does: only when wanted, and again when not taken. Topics are
    /// found at once.
    fn take(&mut self, payload: &[u8]) {
        for _ in 0..3 {
            assert!(self.relay.wants_wal());
            if self.frame(payload) == FrameOutcome::Taken {
                return;
            }
            let Some(Action::LookUpTopic(id, _)) = self.actions.pop_back() else {
                panic!("held: {:?}", self.state());
            };
            self.handle(Input::Topic(id, Ok(facts(3))));
        }
        panic!("held for ever");
    }

    fn begin(&mut self, at: u64) {
        self.take(&wire::begin(at, 0));
    }

    fn commit(&mut self, at: u64) {
        self.take(&wire::commit(at, at + 8));
    }

    /// One transaction with a row per key; its commit record is `at..at + 8`.
    fn transaction(&mut self, at: u64, keys: &[&str]) {
        self.begin(at);
        for key in keys {
            self.take(&row(key));
        }
        self.commit(at);
    }

    /// Everything in flight is acknowledged.
    fn settle(&mut self) {
        let acks = self.sink.ack_all();
        self.handle(Input::Acks(&acks));
    }

    fn state(&self) -> (State, Option<Code>) {
        let condition = self.relay.condition(self.at);
        (condition.state, condition.reason.map(|reason| reason.code))
    }

    fn confirmed(&self) -> u64 {
        self.relay.snapshot(self.at).confirmed.as_u64()
    }

    fn keys(&self) -> Vec<String> {
        let key = |record: &crate::testing::ProducedRecord| {
            String::from_utf8(record.key.clone()).unwrap()
        };
        self.sink.produced().iter().map(key).collect()
    }

    fn new_sink(&mut self) {
        self.sink = MemorySink::new(1_000);
        self.handle(Input::SinkReady);
    }

    fn fail_next(&mut self, code: Code) {
        let lane = *self.sink.waiting().first().unwrap();
        let transaction = self.sink.fail(lane);
        self.handle(Input::DeliveryFailed { transaction, failure: failure(code) });
    }
}

fn row(key: &str) -> Vec<u8> {
    row_of("order", key, "{}")
}

fn row_of(aggregate_type: &str, key: &str, payload: &str) -> Vec<u8> {
    let values = [key, aggregate_type, key, "Happened", payload].map(Value::Text);
    wire::insert(1, OUTBOX, &values)
}

fn null_key() -> Vec<u8> {
    let mut values = ["bad", "order", "", "Happened", "{}"].map(Value::Text);
    values[2] = Value::Null;
    wire::insert(1, OUTBOX, &values)
}

fn foreign_row() -> Vec<u8> {
    wire::insert(1, OTHER, &["1", "order", "k", "t", "{}"].map(Value::Text))
}

fn statuses(actions: &[Action]) -> Vec<StatusUpdate> {
    let status =
        |action: &Action| if let Action::Status(update) = action { Some(*update) } else { None };
    actions.iter().filter_map(status).collect()
}

fn looked_up(actions: &[Action]) -> Vec<TopicId> {
    let topic =
        |action: &Action| if let Action::LookUpTopic(id, _) = action { Some(*id) } else { None };
    actions.iter().filter_map(topic).collect()
}
