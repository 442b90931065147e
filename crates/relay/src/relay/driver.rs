//! The real core against a toy server and a toy broker, from a seed: crashes of all three, lost connections, failed
//! deliveries, a record that is refused until it is mended, acknowledgements in any order between partitions, orderly
//! restarts. After every step the broker's log is
//! held against what was committed:
//!
//! * nothing is confirmed that is not in the log (I1, I3, I4);
//! * the first occurrences of a key are its events in commit order, without gaps, and every repetition is a run that goes
//!   on to the end (I5, I7);
//! * nothing is invented, everything is in the partition where it belongs;
//! * what one session produces past the confirmed position stays within the window, or one larger transaction, and so do
//!   duplicates per interruption, but for what a server forgot (I6);
//! * a record that is refused again takes nothing but its own transaction with it;
//! * with the faults over, everything arrives and is confirmed.

use std::{collections::VecDeque, num::NonZeroI32, time::Duration};

use super::{Action, Input, OnFatal, Outcome, Relay, Settings};
use crate::{
    Acks, Code, Failure, Moment, Now, Outboxes, PgTimestamp, Step, Timing, TopicFacts, TopicId,
    TopicName, Window, testing::MemorySink,
};
use broker::Broker;
use random::Random;
use refusal::Refused;
use server::Server;

mod broker;
mod random;
mod refusal;
mod server;

const WINDOW: Window = Window { events: 12, bytes: 1 << 20 };
const TRANSACTION_ROWS_MAX: u64 = 30;
const SEEDS: u64 = 250;
const STEPS: usize = 500;

/// Router, server and broker.
struct World {
    random: Random,
    server: Server,
    broker: Broker,
    relay: Relay,
    sink: MemorySink,
    /// Topics by number, as this router numbers them.
    names: Vec<(TopicId, TopicName)>,
    asked: VecDeque<TopicId>,
    sink_wanted: Waits,
    connection_wanted: Waits,
    /// Records that the sink had taken before this session.
    produced_before: usize,
    at: Moment,
    /// Duplicates that the interruptions so far may cause.
    allowed: u64,
    restarts: u64,
    refused: Option<Refused>,
    refused_again: u64,
}

/// Whether something that the core asked for is outstanding.
#[derive(PartialEq, Eq)]
enum Waits {
    No,
    Yes,
}

fn relay(seed: u64, at: Moment) -> Relay {
    let timing = Timing {
        status_interval: Duration::from_secs(3),
        silence_limit: Duration::from_secs(3_600),
    };
    let settings = Settings {
        outboxes: Outboxes { tables: vec![server::outbox()] },
        window: WINDOW,
        row_bytes: 1 << 20,
        timing,
        drain: Duration::from_secs(5),
        on_fatal: OnFatal::Stay,
        seed,
    };
    Relay::new(settings, at)
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            server: Server::default(),
            broker: Broker::default(),
            relay: relay(seed, Moment::default()),
            sink: MemorySink::new(0),
            names: Vec::new(),
            asked: VecDeque::new(),
            sink_wanted: Waits::Yes,
            connection_wanted: Waits::No,
            produced_before: 0,
            at: Moment::default(),
            allowed: 0,
            restarts: 0,
            refused: None,
            refused_again: 0,
        }
    }

    fn now(&self) -> Now {
        let micros = i64::try_from(self.at.since_origin().as_micros()).unwrap();
        Now { at: self.at, wall: PgTimestamp::from_micros(micros) }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.relay.handle(input, self.now());
        if let Some(deadline) = self.relay.deadline() {
            assert!(deadline > self.at, "a deadline that has passed makes the shell spin");
        }
        self.act();
    }

    /// Carries out what the core asks for.
    fn act(&mut self) {
        while let Some(action) = self.relay.next_action() {
            match action {
                Action::Connect => self.connection_wanted = Waits::Yes,
                Action::Disconnect => self.server.disconnect(),
                Action::Status(update) => {
                    self.server.confirm(update.flush.lsn().as_u64(), &self.broker);
                }
                Action::CopyDone => self.server.say_goodbye(),
                Action::ReplaceSink => {
                    self.sink = MemorySink::new(0);
                    self.sink_wanted = Waits::Yes;
                }
                Action::LookUpTopic(id, name) => {
                    self.names.retain(|(known, _)| *known != id);
                    self.names.push((id, name));
                    self.asked.push_back(id);
                }
                Action::Exit(outcome) => {
                    if outcome != Outcome::Drained {
                        self.interrupted();
                    }
                    self.start_router();
                    return;
                }
                Action::WatchSlot => panic!("nobody else holds the slot"),
            }
        }
    }

    fn interrupted(&mut self) {
        self.allowed += WINDOW.events.max(TRANSACTION_ROWS_MAX);
        self.restarts += 1;
    }

    fn start_router(&mut self) {
        self.server.disconnect();
        self.forget_refusal();
        self.sink = MemorySink::new(0);
        self.relay = relay(self.random.next(), self.at);
        self.names.clear();
        self.asked.clear();
        self.sink_wanted = Waits::Yes;
        self.connection_wanted = Waits::No;
    }

    fn lose_connection(&mut self) {
        if self.server.disconnect_if_connected() {
            self.interrupted();
            self.handle(Input::Disconnected(Failure::new(Code::ServerUnreachable, "cut")));
        }
    }

    fn read(&mut self, frames: u64) {
        for _ in 0..frames {
            if !self.relay.wants_wal() {
                return;
            }
            let Some(frame) = self.server.peek() else {
                if self.server.said_goodbye() {
                    self.handle(Input::StreamEnded);
                }
                return;
            };
            let frame = frame.to_vec();
            let step = self.relay.frame(&frame, self.now(), &mut self.sink);
            if step == Step::Taken {
                self.server.pop();
            }
            self.act();
        }
    }

    fn store(&mut self, records: u64) {
        for _ in 0..records {
            let lanes = self.sink.waiting();
            if lanes.is_empty() {
                return;
            }
            let lane = lanes[self.random.index(lanes.len())];
            if self.is_refused(lane) {
                self.refuse(lane);
                return;
            }
            let record = self.sink.store(lane).unwrap();
            let (_, topic) = self.names.iter().find(|(id, _)| *id == lane.0).unwrap();
            self.broker.store(topic.as_str(), &record, &self.server, self.restarts);
            assert!(
                self.broker.duplicates <= self.allowed,
                "{} duplicates, {} allowed",
                self.broker.duplicates,
                self.allowed
            );
        }
    }

    fn acknowledge(&mut self, records: u64) {
        let mut acks = Acks::default();
        for _ in 0..records {
            let lanes = self.sink.stored();
            if !lanes.is_empty() {
                self.sink.ack(lanes[self.random.index(lanes.len())], &mut acks);
            }
        }
        self.handle(Input::Acks(&acks));
    }

    fn fail_a_delivery(&mut self) {
        let lanes = self.sink.waiting();
        if !lanes.is_empty() {
            let transaction = self.sink.fail(lanes[self.random.index(lanes.len())]);
            self.interrupted();
            // The place to be careful at is now this one.
            self.forget_refusal();
            let failure = Failure::new(Code::KafkaUnreachable, "failed");
            self.handle(Input::DeliveryFailed { transaction, failure });
        }
    }

    fn answer_look_up(&mut self) {
        if let Some(id) = self.asked.pop_front() {
            let answer = if self.random.one_in(4) {
                Err(Failure::new(Code::TopicMissing, "not yet"))
            } else {
                let partitions = NonZeroI32::new(broker::PARTITIONS).unwrap();
                Ok(TopicFacts { partitions, max_message_bytes: None })
            };
            self.handle(Input::Topic(id, answer));
        }
    }

    /// Stale metadata: the topic is there.
    fn look_for_a_topic_in_vain(&mut self) {
        let used: Vec<TopicId> = self.relay.topics_in_use().map(|(id, _)| id).collect();
        if !used.is_empty() {
            let topic = used[self.random.index(used.len())];
            self.handle(Input::TopicGone(topic));
        }
    }

    fn let_the_world_answer(&mut self) {
        if self.sink_wanted == Waits::Yes {
            self.sink_wanted = Waits::No;
            // Sometimes the queue is smaller than the window, sometimes the other way round.
            self.sink = MemorySink::new(4 + self.random.index(40));
            self.handle(Input::SinkReady);
        }
        if self.connection_wanted == Waits::Yes {
            self.connection_wanted = Waits::No;
            if self.random.one_in(4) {
                self.handle(Input::Disconnected(Failure::new(Code::ServerUnreachable, "refused")));
            } else {
                self.server.connect();
                self.produced_before = self.sink.produced().len();
                self.handle(Input::Connected);
            }
        }
        self.answer_look_up();
    }

    fn pass_time(&mut self, millis: u64) {
        self.at = self.at + Duration::from_millis(millis);
        self.handle(Input::Tick);
    }

    /// What goes right.
    fn progress(&mut self) {
        let some = 1 + self.random.below(8);
        match self.random.below(6) {
            0 => self.server.send(&mut self.random),
            1 => self.read(3 * some),
            2 => self.store(some),
            3 => self.acknowledge(some),
            4 => self.let_the_world_answer(),
            _ => self.pass_time(20 * some),
        }
    }

    /// What goes on, and what goes wrong.
    fn disturb(&mut self) {
        match self.random.below(90) {
            0 => self.lose_connection(),
            1 => {
                self.interrupted();
                self.allowed += self.server.crash();
                self.lose_connection();
            }
            2 => self.fail_a_delivery(),
            3 => {
                self.interrupted();
                self.start_router();
            }
            4 => self.handle(Input::Shutdown),
            5..10 => self.server.save(),
            10..40 => self.server.write(&mut self.random),
            40 => self.begin_to_refuse(),
            41 => self.refused = None,
            42..45 => self.look_for_a_topic_in_vain(),
            _ => {}
        }
    }

    /// What must hold at every moment, whatever the log looks like.
    fn judge(&self) {
        for code in self.relay.totals.errors.keys() {
            let injected = [
                Code::ServerUnreachable,
                Code::KafkaUnreachable,
                Code::TopicMissing,
                Code::TopicForbidden,
            ];
            assert!(injected.contains(code), "{code} was not injected: the books do not balance");
        }
        // A server that crashes between two sessions forgets more than the last one left behind.
        if !self.server.is_connected() {
            return;
        }
        let (first_unconfirmed, largest) = self.server.unconfirmed();
        let session = self.sink.produced().get(self.produced_before..).unwrap_or_default();
        let window = session.iter().filter(|record| broker::number(record) >= first_unconfirmed);
        let window = u64::try_from(window.count()).unwrap();
        assert!(
            window <= WINDOW.events.max(largest),
            "{window} events past the confirmed position"
        );
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            self.disturb();
            self.judge();
            self.progress();
            self.judge();
        }
        self.insist();
        for _ in 0..20_000 {
            if self.server.is_confirmed_to_the_end() {
                return;
            }
            self.progress();
        }
        panic!("no progress without faults: {:?}", self.relay.snapshot(self.at));
    }
}

#[test]
fn no_seed_breaks_the_promises() {
    let mut duplicates = 0;
    let mut stored = 0;
    let mut refused_again = 0;
    for seed in 0..SEEDS {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            world.run();
            (world.broker.duplicates, world.broker.stored, world.refused_again)
        });
        let Ok((repeated, all, again)) = run else {
            panic!("seed {seed} breaks a promise, see above")
        };
        duplicates += repeated;
        stored += all;
        refused_again += again;
    }
    // A run in which nothing happens proves nothing.
    assert!(stored > 20 * SEEDS, "{stored} records");
    assert!(duplicates > SEEDS, "{duplicates} duplicates");
    assert!(refused_again > SEEDS / 4, "{refused_again} repeated refusals");
}
