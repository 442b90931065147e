//! The state topic, and routers one after the other in front of one server.

use super::*;
use crate::{
    HeldSettings, StateTopicRead, WitnessSettings,
    protocol::{StateTopicRecord, WriteAck},
    witness::{Witness, combine},
};

/// See the module's documentation.
pub(super) struct World {
    pub(super) script: Script,
    pub(super) topic: Vec<StateTopicRecord>,
    pub(super) cluster: String,
    pub(super) server: source::Server,
    processes: u32,
    held: HeldSettings,
    /// The offset of the last write.
    pub(super) stored: i64,
    /// Writes that are not acknowledged.
    pub(super) in_flight: Vec<crate::protocol::Write>,
}

fn with_witness(process: u32, held: HeldSettings) -> RelaySettings {
    let process = process.to_string();
    let witness = Some(WitnessSettings { process, ..samples::witness_settings() });
    RelaySettings { witness, held, window: Window { events: 1_000, bytes: 1 << 20 }, ..settings() }
}

impl World {
    pub(super) fn new() -> Self {
        Self::with_dead_letters(HeldSettings::default())
    }

    pub(super) fn with_dead_letters(held: HeldSettings) -> Self {
        let mut script = Script::new(with_witness(0, held.clone()));
        let server = script.source.server();
        script.handle(Input::SinkReady);
        Self {
            script,
            topic: Vec::new(),
            cluster: "c".into(),
            server,
            processes: 0,
            held,
            stored: -1,
            in_flight: Vec::new(),
        }
    }

    /// Streaming, with a warm-up transaction that ends at 16, in Kafka, witnessed and confirmed.
    pub(super) fn streaming() -> Self {
        let mut world = Self::new();
        world.settle_down();
        world.describe();
        world.transaction(8, &["warm-up"]);
        world.script.settle();
        world.settle_down();
        assert_eq!(world.script.source.slot_at, 16);
        world
    }

    /// A transaction whose rows wait until the witness names the partition count of their topic.
    pub(super) fn transaction(&mut self, at: u64, keys: &[&str]) {
        self.script.begin(at);
        for key in keys {
            if self.script.frame(&row(key)) == FrameOutcome::NotTaken {
                while !self.script.relay.wants_wal() {
                    assert!(self.answer() || self.store(), "held for ever");
                }
                self.script.take(&row(key));
            }
        }
        self.script.commit(at);
    }

    pub(super) fn describe(&mut self) {
        self.script.frame(&wire::relation(OUTBOX, "outbox", &COLUMNS));
        self.script.frame(&wire::relation(OTHER, "orders", &COLUMNS));
    }

    /// Answers each action once. Writes stay in flight.
    pub(super) fn answer(&mut self) -> bool {
        let Some(action) = self.script.actions.pop_front() else { return false };
        match action {
            Action::ReadStateTopic(number) | Action::CheckStateTopic(number) => {
                let read =
                    StateTopicRead { cluster: self.cluster.clone(), records: self.topic.clone() };
                self.script.handle(Input::StateTopic(number, Ok(read)));
            }
            Action::WriteStateTopic(write) => self.in_flight.push(write),
            Action::Connect => {
                self.script.source.is_streaming = false;
                let server = self.server.clone();
                self.script.handle(Input::Connected(server));
            }
            Action::LookUpTopic(id, _) => self.script.handle(Input::Topic(id, Ok(facts(3)))),
            action @ (Action::Held(..)
            | Action::ReadTimelines(_)
            | Action::ReadSlot
            | Action::ReadCatalog(_)
            | Action::StartReplication(_)
            | Action::WatchSlot
            | Action::Disconnect
            | Action::Status(_)
            | Action::CopyDone
            | Action::ReplaceSink { .. }
            | Action::Exit(_)) => {
                if let Some(answer) = self.script.source.answer(&action) {
                    self.script.handle(answer);
                }
            }
        }
        true
    }

    pub(super) fn answer_all(&mut self) {
        while self.answer() {}
    }

    /// The oldest write is stored, and acknowledged.
    pub(super) fn store(&mut self) -> bool {
        if self.in_flight.is_empty() {
            return false;
        }
        let write = self.in_flight.remove(0);
        self.topic.retain(|record| record.key != write.key);
        self.stored += 1;
        let last = self.topic.iter().map(|record| record.offset).max();
        self.stored = self.stored.max(last.map_or(0, |last| last + 1));
        let (number, offset) = (write.number, self.stored);
        if let Some(value) = write.value {
            self.topic.push(StateTopicRecord { key: write.key, value, offset });
        }
        self.script.handle(Input::StateTopicWritten(WriteAck { number, offset }));
        true
    }

    /// Answers, acknowledges and ticks for three seconds.
    pub(super) fn settle_down(&mut self) {
        for _ in 0..60 {
            self.answer_all();
            while self.store() {
                self.answer_all();
            }
            self.script.run_for(Duration::from_millis(50));
        }
    }

    /// Runs until a session has begun, without any write.
    pub(super) fn connect(&mut self) {
        self.script.run_for(Duration::from_secs(6));
        self.answer_all();
        self.describe();
    }

    /// `kill -9`, and a new process.
    pub(super) fn restart(&mut self) {
        let source = self.script.source.clone();
        let at = self.script.at;
        self.processes += 1;
        self.in_flight.clear();
        self.script = Script::new(with_witness(self.processes, self.held.clone()));
        self.script.source = source;
        self.script.at = at + Duration::from_secs(1);
        self.script.handle(Input::SinkReady);
    }

    pub(super) fn witness(&self) -> Witness {
        combine(&self.topic).unwrap().unwrap()
    }

    pub(super) fn gap(&self) -> (Option<Code>, u64, u64) {
        let report = self.script.relay.snapshot(self.script.at).witness;
        let gap = report.gaps.first().or(report.other_server_gap.as_ref()).expect("a gap is open");
        let from = gap.interval.begins_at().as_u64();
        assert_eq!(self.script.state(), (State::Failed, Some(gap.failure.code)));
        (Some(gap.failure.code), from, gap.interval.to.lsn.as_u64())
    }

    /// Another router writes this record.
    pub(super) fn another_writes(&mut self, witness: &Witness) {
        let (key, value) = (b"another".to_vec(), witness.encode());
        self.topic.push(StateTopicRecord { key, value, offset: 50 });
    }

    /// A person accepts what is open, as the command does.
    pub(super) fn accept(&mut self) {
        let (witness, source) = (self.witness(), &self.script.source);
        let reading = source.slot_reading();
        let baseline = source::Baseline {
            server: self.server.clone(),
            checked: reading.mark(),
            moment: reading.moment(),
            slot: reading.slot.expect("a slot"),
            catalog: source.catalog(),
            alterations: Vec::new(),
            tables: source::TableOids::default(),
        };
        let begun = Witness::begin(&baseline, &self.cluster, &settings().outboxes);
        let witness = witness.accept(&witness.open_findings(), begun, "ann");
        let (key, value) = (b"accepted".to_vec(), witness.encode());
        self.topic.push(StateTopicRecord { key, value, offset: 1_000 });
    }
}
