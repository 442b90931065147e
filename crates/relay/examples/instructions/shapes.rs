//! What the rows of a run look like: the plain case, and one shape for each format and option.

use relay::{
    BytesFormat, ColumnName, DEBEZIUM, Decimals, EmptyPayload, EnvelopeMember, ExpandJson,
    ExtraHeader, FilterKind, Format, HeaderValue, Intervals, JavaRegex, OutboxTable, Role,
    RowFilter, TableName, Template, Times, Timestamp, TombstoneOn, TopicTemplate,
    testing::wire::{self, Value},
};

use super::{COMMITTED_AT, EVENTS, EVENTS_PER_PASS};

pub(super) const OUTBOX: u32 = 16_400;
const JSONB: u32 = 3802;
const BYTEA: u32 = 17;
const UUID: u32 = 2950;
const INT4: u32 = 23;
const NUMERIC: u32 = 1700;
const TIMESTAMPTZ: u32 = 1184;
const TEXT_ARRAY: u32 = 1009;
const FLOAT8: u32 = 701;
const TIME: u32 = 1083;
const INTERVAL: u32 = 1186;
const INT4_ARRAY: u32 = 1007;

/// What the rows of a run look like.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) name: &'static str,
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
    /// Our own, with headers as an array of names and values.
    HeaderArray,
    /// Our own, with columns for options: a partition, a trace context, a number and a time.
    Options,
    /// The same, with columns of more types that Debezium writes in a way of its own, and a key.
    Types,
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

fn compact(table: &mut OutboxTable) {
    as_json(table);
    table.expand_json = ExpandJson::Compact;
}

fn dropping_nulls(table: &mut OutboxTable) {
    as_json(table);
    table.expand_json = ExpandJson::DropNulls;
}

fn dropping_empty_arrays(table: &mut OutboxTable) {
    as_json(table);
    table.expand_json = ExpandJson::DropEmptyArrays;
}

fn as_string(table: &mut OutboxTable) {
    (table.key_format, table.value_format) = (BytesFormat::String, BytesFormat::String);
}

fn as_bytes(table: &mut OutboxTable) {
    table.value_format = BytesFormat::Bytes;
}

fn by_partition_column(table: &mut OutboxTable) {
    table.columns.set(Role::Partition, vec!["part".into()]);
}

fn traced(table: &mut OutboxTable) {
    table.columns.set(Role::Tracing, vec!["trace".into()]);
}

fn with_constant(table: &mut OutboxTable) {
    let value = Template::parse("shop").ok().map(HeaderValue::Template);
    let header = |value| ExtraHeader { name: "source".to_owned(), value };
    table.extra_headers = value.into_iter().map(header).collect();
}

fn with_pointer(table: &mut OutboxTable) {
    let value = Template::parse("${payload#/number}").ok().map(HeaderValue::Template);
    let header = |value| ExtraHeader { name: "number".to_owned(), value };
    table.extra_headers = value.into_iter().map(header).collect();
}

/// Headers as Debezium's converter writes a number and a time.
fn with_typed_headers(table: &mut OutboxTable) {
    table.format = Format::Debezium;
    table.extra_headers = vec![column_header("amount", "amount"), column_header("due", "due")];
}

/// Debezium's format with one column as a header.
fn with_header_of(table: &mut OutboxTable, column: &str) {
    table.format = Format::Debezium;
    table.extra_headers = vec![column_header(column, column)];
}

fn with_decimal_text(table: &mut OutboxTable) {
    with_header_of(table, "amount");
    table.decimals = Decimals::Text;
}

fn with_decimal_double(table: &mut OutboxTable) {
    with_header_of(table, "amount");
    table.decimals = Decimals::Double;
}

fn with_time_in_nanoseconds(table: &mut OutboxTable) {
    with_header_of(table, "at");
    table.times = Times::Nanoseconds;
}

fn with_interval_text(table: &mut OutboxTable) {
    with_header_of(table, "takes");
    table.intervals = Intervals::Text;
}

fn with_topic_of_columns(table: &mut OutboxTable) {
    table.topic = TopicTemplate::parse("outbox.${aggregate_type}.${event_type}").ok();
}

fn with_key_as_bytes(table: &mut OutboxTable) {
    table.key_format = BytesFormat::Bytes;
    table.columns.set(Role::AggregateId, vec!["raw_key".into()]);
}

fn by_now(table: &mut OutboxTable) {
    table.timestamp = Timestamp::Now;
}

fn with_tombstones(table: &mut OutboxTable) {
    table.tombstone_on = TombstoneOn(vec![EmptyPayload::Null, EmptyPayload::Blank]);
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
pub(super) const SHAPES: [Shape; 37] = [
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
    Shape { name: "compact", table: Table::Debezium, mapping: compact, ..BATCH },
    Shape { name: "drop_nulls", table: Table::Debezium, mapping: dropping_nulls, ..BATCH },
    Shape { name: "drop_arrays", table: Table::Debezium, mapping: dropping_empty_arrays, ..BATCH },
    Shape { name: "string", mapping: as_string, ..BATCH },
    Shape { name: "bytes", table: Table::Bytea, mapping: as_bytes, ..BATCH },
    Shape { name: "partition", table: Table::Options, mapping: by_partition_column, ..BATCH },
    Shape { name: "tracing", table: Table::Options, mapping: traced, ..BATCH },
    Shape { name: "constant", mapping: with_constant, ..BATCH },
    Shape { name: "pointer", mapping: with_pointer, ..BATCH },
    Shape { name: "typed", table: Table::Options, mapping: with_typed_headers, ..BATCH },
    Shape { name: "tombstone", mapping: with_tombstones, ..BATCH },
    Shape {
        name: "header_array",
        table: Table::HeaderArray,
        headers: Some("{tenant,acme,attempt,1,user,0198c3f2,parent,NULL}"),
        ..BATCH
    },
    Shape { name: "envelope", table: Table::Debezium, mapping: enveloped, ..BATCH },
    Shape { name: "topic_columns", mapping: with_topic_of_columns, ..BATCH },
    Shape { name: "key_bytes", table: Table::Types, mapping: with_key_as_bytes, ..BATCH },
    Shape { name: "now", mapping: by_now, ..BATCH },
    Shape { name: "decimal_text", table: Table::Types, mapping: with_decimal_text, ..BATCH },
    Shape { name: "decimal_double", table: Table::Types, mapping: with_decimal_double, ..BATCH },
    Shape { name: "nanoseconds", table: Table::Types, mapping: with_time_in_nanoseconds, ..BATCH },
    Shape {
        name: "interval",
        table: Table::Types,
        mapping: |t| with_header_of(t, "takes"),
        ..BATCH
    },
    Shape { name: "interval_text", table: Table::Types, mapping: with_interval_text, ..BATCH },
    Shape { name: "float", table: Table::Types, mapping: |t| with_header_of(t, "rate"), ..BATCH },
    Shape { name: "array", table: Table::Types, mapping: |t| with_header_of(t, "counts"), ..BATCH },
];

impl Shape {
    pub(super) fn table(&self) -> OutboxTable {
        let name = TableName { schema: "public".into(), name: "outbox".into() };
        let mut table = OutboxTable::with_defaults(name);
        (self.mapping)(&mut table);
        match self.table {
            Table::Default | Table::Bytea | Table::HeaderArray | Table::Options | Table::Types => {
                table
            }
            Table::Debezium => {
                OutboxTable { preset: Some(&DEBEZIUM), format: Format::Debezium, ..table }
            }
        }
    }

    pub(super) fn relation(&self) -> Vec<u8> {
        let payload = if self.table == Table::Bytea { BYTEA } else { JSONB };
        let headers = if self.table == Table::HeaderArray { TEXT_ARRAY } else { JSONB };
        let own = [
            ("id", UUID),
            ("aggregate_type", wire::TEXT),
            ("aggregate_id", wire::TEXT),
            ("event_type", wire::TEXT),
            ("payload", payload),
            ("headers", headers),
            ("created_at", TIMESTAMPTZ),
            ("part", INT4),
            ("trace", wire::TEXT),
            ("amount", NUMERIC),
            ("due", TIMESTAMPTZ),
            ("at", TIME),
            ("takes", INTERVAL),
            ("rate", FLOAT8),
            ("counts", INT4_ARRAY),
            ("raw_key", BYTEA),
        ];
        let debeziums = [
            ("id", UUID),
            ("aggregatetype", wire::TEXT),
            ("aggregateid", wire::TEXT),
            ("type", wire::TEXT),
            ("payload", payload),
        ];
        let columns: Vec<(&str, u32)> = match self.table {
            Table::Default | Table::Bytea | Table::HeaderArray => own.into_iter().take(7).collect(),
            Table::Options => own.into_iter().take(11).collect(),
            Table::Types => own.into_iter().collect(),
            Table::Debezium => debeziums.into_iter().collect(),
        };
        wire::relation(OUTBOX, "outbox", &columns)
    }

    /// One row, its payload 400 bytes long.
    fn row(&self, number: usize, position: u64) -> Vec<u8> {
        let id = format!("0198c3f2-7d1a-7c3e-8b4f-{number:012x}");
        let topic = self.topics.iter().cycle().nth(number % self.topics.len()).unwrap_or(&"order");
        let key = format!("customer-{:05}", number.wrapping_mul(7919) % 100_000);
        let payload = match self.table {
            // No leading zero, which JSON does not have.
            Table::Default
            | Table::HeaderArray
            | Table::Options
            | Table::Types
            | Table::Debezium => {
                format!(r#"{{"number": 1{number:07}, "text": "{}"}}"#, "x".repeat(371))
            }
            Table::Bytea => format!("\\x{number:08x}{}", "c3a9".repeat(198)),
        };
        let part = (number % 6).to_string();
        let raw_key = format!("\\x{number:016x}");
        let mut values: Vec<Value<'_>> =
            [id.as_str(), topic, &key, "OrderPlaced", &payload].map(Value::Text).into();
        if self.table != Table::Debezium {
            values.push(self.headers.map_or(Value::Null, Value::Text));
            values.push(Value::Text("2026-01-01 00:00:00.000000+00"));
        }
        if matches!(self.table, Table::Options | Table::Types) {
            let trace = "traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
            let rest = [part.as_str(), trace, "12345.67", "2026-01-02 03:04:05.678+00"];
            values.extend(rest.map(Value::Text));
        }
        if self.table == Table::Types {
            let (takes, counts) = ("1 year 2 mons 3 days 04:05:06.7", "{1,22,NULL,4444}");
            let rest = ["03:04:05.678", takes, "0.1234567891", counts, raw_key.as_str()];
            values.extend(rest.map(Value::Text));
        }
        wire::insert(position, OUTBOX, &values)
    }

    /// What the server sends for all events: each pass is whole transactions and a keepalive.
    pub(super) fn passes(&self) -> Vec<Vec<Vec<u8>>> {
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
