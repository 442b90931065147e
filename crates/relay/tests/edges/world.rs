//! The core between a server without defects and a producer in memory.

use std::{collections::BTreeMap, num::NonZeroI32, time::Duration};

use relay::{
    Action, BacklogFrom, BacklogSettings, FrameOutcome, Input, Moment, Now, OnFailed, OutboxTable,
    Outboxes, PgTimestamp, Relay, RelaySettings, Timing, TopicFacts, TopicId, Window,
    testing::{
        MemorySink, ProducedRecord, Source,
        wire::{self, Value},
    },
};

use super::Cell;

const OID: u32 = 16_400;
/// The partitions of every topic.
pub(crate) const PARTITIONS: NonZeroI32 = NonZeroI32::new(3).unwrap();
/// The largest record of every topic.
pub(crate) const MESSAGE_MAX: u32 = 12 << 20;

/// What becomes of a row.
#[derive(Debug)]
pub(crate) enum Outcome {
    Record { topic: String, record: ProducedRecord },
    Stops(String),
}

impl Outcome {
    fn part(&self, part: impl FnOnce(&str, &ProducedRecord) -> String) -> String {
        match self {
            Self::Record { topic, record } => part(topic, record),
            Self::Stops(code) => code.clone(),
        }
    }

    /// The record's topic, or the code.
    pub(crate) fn topic(&self) -> String {
        self.part(|topic, _| topic.to_owned())
    }

    /// The record's key, or the code.
    pub(crate) fn key(&self) -> String {
        self.part(|_, record| text(Some(&record.key)))
    }

    /// The record's value, or the code.
    pub(crate) fn value(&self) -> String {
        self.part(|_, record| text(record.value.as_ref()))
    }

    /// The values of the headers of a name, or the code.
    pub(crate) fn header(&self, name: &str) -> String {
        self.part(|_, record| {
            let named = record.headers.iter().filter(|(known, _)| known == name);
            let values: Vec<String> = named.map(|(_, value)| text(value.as_ref())).collect();
            if values.is_empty() { "no header".to_owned() } else { values.join(" and ") }
        })
    }

    /// The record's partition, or the code.
    pub(crate) fn partition(&self) -> String {
        self.part(|_, record| record.partition.to_string())
    }

    /// The record's time in milliseconds, or the code.
    pub(crate) fn time(&self) -> String {
        self.part(|_, record| record.timestamp_ms.to_string())
    }
}

fn text(bytes: Option<&Vec<u8>>) -> String {
    bytes.map_or_else(|| "NULL".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// The core, in one transaction.
pub(crate) struct World {
    relay: Relay,
    source: Source,
    sink: MemorySink,
    topics: BTreeMap<TopicId, String>,
}

impl World {
    pub(crate) fn new(table: &OutboxTable) -> Self {
        let settings = RelaySettings {
            held: relay::held::HeldSettings::default(),
            slot: "s".into(),
            publication: "p".into(),
            witness: None,
            outboxes: Outboxes { tables: vec![table.clone()], ..Outboxes::default() },
            window: Window { events: 100, bytes: 64 << 20 },
            row_bytes: 32 << 20,
            timing: Timing {
                status_interval: Duration::from_secs(3),
                silence_limit: Duration::from_secs(60),
            },
            shutdown_limit: Duration::from_secs(25),
            backlog: BacklogSettings::of(BacklogFrom::Stream),
            on_failed: OnFailed::Stay,
            seed: 1,
        };
        let mut world = Self {
            relay: Relay::new(settings, Moment::default()),
            source: Source::of("outbox", OID, &[]),
            sink: MemorySink::new(100),
            topics: BTreeMap::new(),
        };
        world.relay.handle(Input::SinkReady, now());
        world.act();
        world.take(&wire::begin(2048, 0));
        world
    }

    /// The table has the columns of this row from now on.
    pub(crate) fn describe(&mut self, row: &[Cell<'_>]) {
        let columns: Vec<_> = row.iter().map(|(name, type_oid, _)| (*name, *type_oid)).collect();
        self.take(&wire::relation(OID, "outbox", &columns));
    }

    /// What becomes of a row. The router stops at the first that it refuses.
    pub(crate) fn insert(&mut self, row: &[Cell<'_>]) -> Outcome {
        let before = self.sink.produced().len();
        let values: Vec<Value<'_>> = row.iter().map(|(.., value)| *value).collect();
        self.take(&wire::insert(2048, OID, &values));
        match self.sink.produced().get(before) {
            Some(record) => Outcome::Record {
                topic: self.topics.get(&record.topic).cloned().unwrap_or_default(),
                record: record.clone(),
            },
            None => {
                let reason = self.relay.snapshot(Moment::default()).condition.reason;
                Outcome::Stops(reason.expect("a record or a reason").code.to_string())
            }
        }
    }

    /// Hands over a frame, which waits while its topic is looked up.
    fn take(&mut self, frame: &[u8]) {
        while self.relay.wants_wal()
            && self.relay.frame(frame, now(), &mut self.sink) == FrameOutcome::NotTaken
        {
            self.act();
        }
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.relay.next_action() {
            if let Action::LookUpTopic(id, name) = &action {
                self.topics.insert(*id, name.to_string());
                let max_message_bytes = Some(MESSAGE_MAX.try_into().unwrap());
                let facts = TopicFacts { partitions: PARTITIONS, max_message_bytes };
                self.relay.handle(Input::Topic(*id, Ok(facts)), now());
            } else if let Some(answer) = self.source.answer(&action) {
                self.relay.handle(answer, now());
            }
        }
    }
}

fn now() -> Now {
    Now { at: Moment::default(), wall: PgTimestamp::from_micros(0) }
}
