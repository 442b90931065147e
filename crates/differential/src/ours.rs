//! What the router makes of recorded rows: the case's configuration goes through `migrate`, and
//! what the server sent of a row goes through the core.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::num::NonZeroI32;

use anyhow::{Context, ensure};
use outbox_router::config::{self, Environment};
use outbox_router::migrate::{self, Given, Migration};
use relay::testing::{MemorySink, ProducedRecord, Source, samples, wire};
use relay::{
    Action, FrameOutcome, Input, Moment, Now, Outboxes, PgTimestamp, Relay, RelaySettings,
    TopicFacts, TopicId,
};

use crate::case::Case;
use crate::golden::{Bytes, Golden, Hex, Outcome, Record, Time};

/// How many partitions every topic has.
pub const PARTITIONS: NonZeroI32 = NonZeroI32::new(3).unwrap();

/// When every row is committed: 2026-01-01, in microseconds since 2000.
const COMMITTED_AT: i64 = 820_540_800_000_000;

/// Translates a case's configuration.
///
/// # Errors
///
/// Fails when a part of it is not supported.
pub fn migrated(case: &Case) -> anyhow::Result<Migration> {
    let given = Given {
        file: format!("{}.properties", case.name),
        bootstrap_servers: Some("kafka:9092".to_owned()),
        ..Given::default()
    };
    let migration = migrate::debezium(&case.properties(5432), &given)?;
    ensure!(migration.is_complete(), "{}: {:#?}", case.name, migration.unsupported);
    Ok(migration)
}

/// Reads what [`migrated`] wrote.
fn outboxes(toml: &str) -> anyhow::Result<Outboxes> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("outbox-router.toml");
    std::fs::write(&file, toml)?;
    let variable = (OsString::from("POSTGRES_PASSWORD"), OsString::from("unused"));
    let loaded = config::load(Some(&file), &Environment::new([variable]), &[])?;
    Ok(loaded.config.outboxes())
}

/// What the router makes of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// What becomes of every row, were it the only one, in order.
    pub alone: Vec<Outcome>,
    /// The topics that the core asked for, also those of rows that it refused then.
    pub topics: BTreeSet<String>,
    /// The code with which the router stops at what comes before the last row, where it does.
    pub stops_before_last: Option<String>,
}

impl Routed {
    /// What becomes of every row: the last one has no record where the router stops before it.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let mut outcomes = self.alone.clone();
        if let (Some(code), Some(last)) = (&self.stops_before_last, outcomes.last_mut()) {
            *last = Outcome::Stops(code.clone());
        }
        outcomes
    }
}

/// What the router makes of every row of a recording, in order.
///
/// # Errors
///
/// Fails when the configuration cannot be translated, or a row has no outcome.
pub fn outcomes(case: &Case, golden: &Golden) -> anyhow::Result<Vec<Outcome>> {
    Ok(routed(case, golden)?.outcomes())
}

/// What the router makes of a recording.
///
/// # Errors
///
/// As [`outcomes`].
pub fn routed(case: &Case, golden: &Golden) -> anyhow::Result<Routed> {
    routed_by(&migrated(case)?.toml.context("no configuration")?, case, golden)
}

/// What the router makes of a recording with another configuration of the case's table.
///
/// # Errors
///
/// Fails when the configuration cannot be read, or a row has no outcome.
pub fn routed_by(toml: &str, case: &Case, golden: &Golden) -> anyhow::Result<Routed> {
    let outboxes = outboxes(toml)?;
    let mut routed = Routed { alone: Vec::new(), topics: BTreeSet::new(), stops_before_last: None };
    for row in &golden.rows {
        let mut run = Run::new(case, &outboxes, &golden.relation.0)?;
        routed.alone.push(run.route(golden, [&row.insert])?);
        routed.topics.extend(run.topics.into_values());
    }
    if let (false, Some(row)) = (golden.before_last_row.is_empty(), golden.rows.last()) {
        let mut run = Run::new(case, &outboxes, &golden.relation.0)?;
        let outcome = run.route(golden, golden.before_last_row.iter().chain([&row.insert]))?;
        match outcome {
            Outcome::Stops(code) => routed.stops_before_last = Some(code),
            Outcome::Record(_) => ensure!(
                routed.alone.last() == Some(&outcome),
                "{}: other statements change the record of the row after them",
                case.name
            ),
        }
    }
    Ok(routed)
}

/// One row has the core for itself, because the core stops at a row that it refuses.
struct Run {
    relay: Relay,
    source: Source,
    sink: MemorySink,
    topics: BTreeMap<TopicId, String>,
}

impl Run {
    fn new(case: &Case, outboxes: &Outboxes, relation: &[u8]) -> anyhow::Result<Self> {
        let oid = relation.get(1..5).context("no relation")?.try_into().map(u32::from_be_bytes)?;
        let settings = RelaySettings {
            slot: case.identifier(),
            publication: case.identifier(),
            outboxes: outboxes.clone(),
            ..samples::settings()
        };
        Ok(Self {
            relay: Relay::new(settings, Moment::default()),
            source: Source::of(&case.identifier(), oid, &[]),
            sink: MemorySink::new(100),
            topics: BTreeMap::new(),
        })
    }

    /// Routes messages, of which one is about a row. A stop anywhere among them is the outcome.
    fn route<'m>(
        &mut self,
        golden: &'m Golden,
        messages: impl IntoIterator<Item = &'m Hex>,
    ) -> anyhow::Result<Outcome> {
        self.handle(Input::SinkReady);
        let described = golden.types.iter().chain([&golden.relation]);
        let messages = described.chain(messages);
        let mut frames = vec![wire::begin(2048, COMMITTED_AT)];
        frames.extend(messages.map(|message| wire::wal(2048, COMMITTED_AT, &message.0)));
        frames.push(wire::commit(2048, 2096));
        for frame in &frames {
            // A frame waits while its topic is looked up.
            while self.relay.wants_wal()
                && self.relay.frame(frame, now(), &mut self.sink) == FrameOutcome::NotTaken
            {
                self.act();
            }
            self.act();
        }
        ensure!(self.sink.produced().len() < 2, "more than one record");
        if let Some(code) = self.reason() {
            return Ok(Outcome::Stops(code));
        }
        let record = self.sink.produced().first().context("neither a record nor a reason")?;
        Ok(Outcome::Record(self.record(record)))
    }

    /// The code with which the core has stopped.
    fn reason(&self) -> Option<String> {
        let reason = self.relay.snapshot(Moment::default()).condition.reason;
        reason.map(|reason| reason.code.to_string())
    }

    fn handle(&mut self, input: Input<'_>) {
        self.relay.handle(input, now());
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.relay.next_action() {
            if let Action::LookUpTopic(id, name) = &action {
                self.topics.insert(*id, name.to_string());
                let facts = TopicFacts { partitions: PARTITIONS, max_message_bytes: None };
                self.relay.handle(Input::Topic(*id, Ok(facts)), now());
            } else if let Some(answer) = self.source.answer(&action) {
                self.relay.handle(answer, now());
            }
        }
    }

    fn record(&self, record: &ProducedRecord) -> Record {
        let committed = PgTimestamp::from_micros(COMMITTED_AT).unix_millis();
        let bytes = |bytes: &Vec<u8>| Bytes(bytes.clone());
        let headers = record.headers.iter();
        Record {
            topic: self.topics.get(&record.topic).cloned().unwrap_or_default(),
            partition: Some(record.partition),
            key: Some(bytes(&record.key)),
            value: record.value.as_ref().map(bytes),
            headers: headers
                .map(|(name, value)| (name.clone(), value.as_ref().map(bytes)))
                .collect(),
            time: match record.timestamp_ms {
                millis if millis == committed => Time::Event,
                millis => Time::Row(millis),
            },
        }
    }
}

fn now() -> Now {
    Now { at: Moment::default(), wall: PgTimestamp::from_micros(COMMITTED_AT) }
}
