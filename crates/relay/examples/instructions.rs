//! The core under a steady load, for counting what an event costs: `scripts/instructions.sh` runs
//! this under callgrind.
//!
//! ```text
//! instructions                   names the shapes
//! instructions SHAPE EVENTS      the first EVENTS of SHAPE's events go through the core
//! ```
//! It does what the shell does: frames in by passes, acknowledgements back as a broker gives them
//! (by partition), a status update when one is due. Sockets, timers and the producer are left out.
//! Whatever EVENTS is, all frames are written before the first is read, so that the difference
//! between two runs is what the core did for the events between them, and nothing else.

use std::{
    env,
    error::Error,
    hint::black_box,
    io::{self, Write},
    num::NonZeroI32,
    time::Duration,
};

use relay::{
    Acks, Action, BytesFormat, ColumnName, DEBEZIUM, EnvelopeMember, ExpandJson, ExtraHeader,
    FilterKind, Format, FrameOutcome, HeaderValue, Input, JavaRegex, Moment, Now, OutboxTable,
    Outboxes, PgTimestamp, Record, RecordSink, Refusal, Relay, RelaySettings, Role, RowFilter,
    TableName, Ticket, Timestamp, TopicFacts, TopicId, TopicTemplate,
    testing::{
        Source, samples,
        wire::{self, Value},
    },
};

/// The most events that a run may ask for.
const EVENTS: usize = 8_000;
/// Events between two polls of the acknowledgements.
const EVENTS_PER_PASS: usize = 1_000;
const PARTITIONS: NonZeroI32 = NonZeroI32::new(6).unwrap();
const OUTBOX: u32 = 16_400;
const JSONB: u32 = 3802;
const BYTEA: u32 = 17;
const UUID: u32 = 2950;
/// 2026-01-01, in microseconds since 2000.
const COMMITTED_AT: i64 = 820_540_800_000_000;

/// What the rows of a run look like.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    rows_per_transaction: usize,
    table: Table,
    headers: Option<&'static str>,
    topics: &'static [&'static str],
    /// What the configuration asks for beside the preset.
    mapping: fn(&mut OutboxTable),
}

/// How the table is made, and with it what a record looks like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    /// Our own.
    Default,
    /// Our own, with a binary payload.
    Bytea,
    /// Debezium's, routed as Debezium does.
    Debezium,
}

const BATCH: Shape = Shape {
    name: "batch",
    rows_per_transaction: 100,
    table: Table::Default,
    headers: None,
    topics: &["order"],
    mapping: |_| {},
};

fn column_header(name: &str, column: &str) -> ExtraHeader {
    ExtraHeader { name: name.to_owned(), value: HeaderValue::Column(column.to_owned()) }
}

fn by_created_at(table: &mut OutboxTable) {
    table.timestamp = Timestamp::Column;
}

/// Debezium's commonest placement.
fn with_event_type(table: &mut OutboxTable) {
    table.extra_headers = vec![column_header("eventType", "type")];
}

fn by_two_columns(table: &mut OutboxTable) {
    let template = ColumnName::parse("${aggregate_type}-${aggregate_id|id}");
    table.columns.set(Role::AggregateId, template.into_iter().collect());
}

fn as_json(table: &mut OutboxTable) {
    (table.key_format, table.value_format) = (BytesFormat::Json, BytesFormat::Json);
}

fn expanded(table: &mut OutboxTable) {
    as_json(table);
    table.expand_json = ExpandJson::AsItIs;
}

fn dropping(table: &mut OutboxTable) {
    as_json(table);
    table.expand_json = ExpandJson::DropBoth;
}

fn enveloped(table: &mut OutboxTable) {
    let (name, column) = ("eventType".to_owned(), "type".to_owned());
    table.envelope = vec![EnvelopeMember { name, column }];
}

fn filtered(table: &mut OutboxTable) {
    let (column, values) = ("event_type".to_owned(), vec!["OrderPlaced".to_owned()]);
    table.filter = Some(RowFilter { column, values, kind: FilterKind::In });
}

fn by_regex(table: &mut OutboxTable) {
    table.route_regex = JavaRegex::parse("(?<name>[a-z]+)").ok();
    table.topic = TopicTemplate::parse("outbox.event.${name}").ok();
}

/// The plain case first; each of the others differs from it in one thing.
const SHAPES: [Shape; 15] = [
    BATCH,
    Shape { name: "single", rows_per_transaction: 1, ..BATCH },
    Shape {
        name: "headers",
        headers: Some(r#"{"tenant": "acme", "attempt": 1, "user": "0198c3f2", "parent": null}"#),
        ..BATCH
    },
    Shape { name: "debezium", table: Table::Debezium, ..BATCH },
    Shape { name: "bytea", table: Table::Bytea, ..BATCH },
    Shape {
        name: "topics",
        topics: &["order", "invoice", "customer", "shipment", "payment", "refund", "cart", "stock"],
        ..BATCH
    },
    Shape { name: "time", mapping: by_created_at, ..BATCH },
    Shape { name: "template", mapping: by_two_columns, ..BATCH },
    Shape { name: "filter", mapping: filtered, ..BATCH },
    Shape { name: "regex", mapping: by_regex, ..BATCH },
    Shape { name: "extra_header", table: Table::Debezium, mapping: with_event_type, ..BATCH },
    Shape { name: "json", table: Table::Debezium, mapping: as_json, ..BATCH },
    Shape { name: "expand", table: Table::Debezium, mapping: expanded, ..BATCH },
    Shape { name: "drop", table: Table::Debezium, mapping: dropping, ..BATCH },
    Shape { name: "envelope", table: Table::Debezium, mapping: enveloped, ..BATCH },
];

impl Shape {
    fn table(&self) -> OutboxTable {
        let name = TableName { schema: "public".into(), name: "outbox".into() };
        let mut table = OutboxTable::with_defaults(name);
        (self.mapping)(&mut table);
        match self.table {
            Table::Default | Table::Bytea => table,
            Table::Debezium => {
                OutboxTable { preset: Some(&DEBEZIUM), format: Format::Debezium, ..table }
            }
        }
    }

    fn relation(&self) -> Vec<u8> {
        let payload = if self.table == Table::Bytea { BYTEA } else { JSONB };
        let columns: &[(&str, u32)] = match self.table {
            Table::Default | Table::Bytea => &[
                ("id", UUID),
                ("aggregate_type", wire::TEXT),
                ("aggregate_id", wire::TEXT),
                ("event_type", wire::TEXT),
                ("payload", payload),
                ("headers", JSONB),
                ("created_at", 1184),
            ],
            Table::Debezium => &[
                ("id", UUID),
                ("aggregatetype", wire::TEXT),
                ("aggregateid", wire::TEXT),
                ("type", wire::TEXT),
                ("payload", payload),
            ],
        };
        wire::relation(OUTBOX, "outbox", columns)
    }

    /// One row, its payload 400 bytes long.
    fn row(&self, number: usize, position: u64) -> Vec<u8> {
        let id = format!("0198c3f2-7d1a-7c3e-8b4f-{number:012x}");
        let topic = self.topics.iter().cycle().nth(number % self.topics.len()).unwrap_or(&"order");
        let key = format!("customer-{:05}", number.wrapping_mul(7919) % 100_000);
        let payload = match self.table {
            Table::Default | Table::Debezium => {
                // No leading zero, which JSON does not have.
                format!(r#"{{"number": 1{number:07}, "text": "{}"}}"#, "x".repeat(371))
            }
            Table::Bytea => format!("\\x{number:08x}{}", "c3a9".repeat(198)),
        };
        let headers = self.headers.map_or(Value::Null, Value::Text);
        let common = [id.as_str(), topic, &key, "OrderPlaced", &payload].map(Value::Text);
        match self.table {
            Table::Default | Table::Bytea => {
                let created_at = Value::Text("2026-01-01 00:00:00.000000+00");
                let values: Vec<_> = common.into_iter().chain([headers, created_at]).collect();
                wire::insert(position, OUTBOX, &values)
            }
            Table::Debezium => wire::insert(position, OUTBOX, &common),
        }
    }

    /// What the server sends for all events: each pass is whole transactions and a keepalive.
    fn passes(&self) -> Vec<Vec<Vec<u8>>> {
        let mut position = 1 << 24;
        (0..EVENTS)
            .step_by(EVENTS_PER_PASS)
            .map(|first| {
                let mut frames = Vec::new();
                for start in (first..first + EVENTS_PER_PASS).step_by(self.rows_per_transaction) {
                    let commit = position + 1024;
                    frames.push(wire::begin(commit, COMMITTED_AT));
                    for number in start..start + self.rows_per_transaction {
                        frames.push(self.row(number, position));
                    }
                    frames.push(wire::commit(commit, commit + 48));
                    position = commit + 48;
                }
                frames.push(wire::keepalive(position));
                frames
            })
            .collect()
    }
}

/// Stands in for the producer: keeps tickets by partition until the poll. Its own instructions are
/// not the core's, and are told apart from them.
#[derive(Default)]
struct Broker {
    partitions: [Vec<(Ticket, TopicId)>; 6],
}

impl RecordSink for Broker {
    #[inline]
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        let record = black_box(record);
        if let Ok(index) = usize::try_from(record.partition)
            && let Some(partition) = self.partitions.get_mut(index)
        {
            partition.push((ticket, record.topic));
        }
        Ok(())
    }
}

struct Shell {
    relay: Relay,
    source: Source,
    broker: Broker,
    acks: Acks,
    at: Moment,
}

impl Shell {
    fn now(&self) -> Now {
        Now { at: self.at, wall: PgTimestamp::from_micros(COMMITTED_AT + 3_500) }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.relay.handle(input, self.now());
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.relay.next_action() {
            match action {
                Action::LookUpTopic(id, _) => {
                    let facts =
                        TopicFacts { partitions: PARTITIONS, max_message_bytes: Some(1 << 20) };
                    self.relay.handle(Input::Topic(id, Ok(facts)), self.now());
                }
                Action::Status(update) => {
                    black_box(update);
                }
                Action::Connect
                | Action::ReadSlot
                | Action::ReadCatalog(_)
                | Action::StartReplication => {
                    let answer = self.source.answer(&action);
                    if let Some(answer) = answer {
                        self.relay.handle(answer, self.now());
                    }
                }
                Action::ReadStateTopic(_)
                | Action::CheckStateTopic(_)
                | Action::WriteStateTopic(_)
                | Action::ReadTimelines(_)
                | Action::WatchSlot
                | Action::Disconnect
                | Action::CopyDone
                | Action::ReplaceSink { .. }
                | Action::Exit(_) => {}
            }
        }
    }

    fn pass(&mut self, frames: &[Vec<u8>]) -> Result<(), String> {
        let now = self.now();
        for frame in frames {
            while !self.relay.wants_wal()
                || self.relay.frame(frame, now, &mut self.broker) == FrameOutcome::NotTaken
            {
                self.act();
                if !self.relay.wants_wal() {
                    return Err("a frame was held for good".to_owned());
                }
            }
        }
        self.acks.clear();
        for partition in &mut self.broker.partitions {
            for (ticket, topic) in partition.drain(..) {
                self.acks.push(Ticket::from_opaque(ticket.into_opaque()), topic);
            }
        }
        self.relay.handle(Input::Acks(&self.acks), now);
        self.act();
        self.at = self.at + Duration::from_millis(5);
        self.handle(Input::Tick);
        Ok(())
    }
}

fn settings(shape: Shape) -> RelaySettings {
    RelaySettings { outboxes: Outboxes { tables: vec![shape.table()] }, ..samples::settings() }
}

fn run(shape: Shape, events: usize) -> Result<(), String> {
    let passes = shape.passes();
    let at = Moment::default();
    let relay = Relay::new(settings(shape), at);
    let source = Source::of("outbox", OUTBOX, &[]);
    let (broker, acks) = (Broker::default(), Acks::default());
    let mut shell = Shell { relay, source, broker, acks, at };
    shell.handle(Input::SinkReady);
    shell.pass(&[shape.relation()])?;
    for frames in passes.iter().take(events / EVENTS_PER_PASS) {
        shell.pass(frames)?;
    }
    shell.at = shell.at + Duration::from_secs(3);
    shell.handle(Input::Tick);
    let snapshot = shell.relay.snapshot(shell.at);
    let acked: u64 = snapshot.topics.iter().map(|topic| topic.acked).sum();
    if usize::try_from(acked) != Ok(events) || snapshot.confirmed != snapshot.received {
        return Err(format!("{acked} of {events} events went through, not all of it confirmed"));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.is_empty() {
        for shape in SHAPES {
            writeln!(io::stdout(), "{}", shape.name)?;
        }
        return Ok(());
    }
    let [name, events] = arguments.as_slice() else {
        return Err("usage: instructions [SHAPE EVENTS]".into());
    };
    let shape = SHAPES
        .into_iter()
        .find(|shape| shape.name == name)
        .ok_or_else(|| format!("no shape is called {name}"))?;
    let events: usize = events.parse()?;
    if events == 0 || events > EVENTS || !events.is_multiple_of(EVENTS_PER_PASS) {
        return Err(format!("EVENTS is a multiple of {EVENTS_PER_PASS}, at most {EVENTS}").into());
    }
    run(shape, events)?;
    Ok(())
}
