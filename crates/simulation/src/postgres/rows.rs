//! Rows of the outbox as pgoutput messages, in the shape that the table had when they were written.

use relay::testing::wire::{self, TEXT, Value};

use crate::{
    history::{CommittedEvent, CommittedTransaction, IDS, OutboxName, RowKind, TYPES},
    plan::VersionGroup,
    random::Random,
};

pub(super) const OUTBOX: u32 = 16_400;
/// A partition of the outbox.
pub(super) const PARTITION: u32 = 16_401;
const OTHER: u32 = 16_500;
const COLUMNS: [&str; 5] = ["id", "aggregate_type", "aggregate_id", "event_type", "payload"];
/// The type of every event.
pub const EVENT_TYPE: &str = "happened";
/// The type of rows that the routers' configuration leaves out.
pub(super) const SKIPPED: &str = "skipped";
/// From this shape on, the key column has another name.
pub const RENAMED: usize = 1_000;

/// The columns of a shape: in another order, sometimes with one that the mapping does not use.
fn columns(shape: usize) -> Vec<&'static str> {
    let mut columns = COLUMNS.to_vec();
    columns.rotate_left(shape % COLUMNS.len());
    if shape % 2 == 1 {
        columns.insert(shape % COLUMNS.len(), "note");
    }
    if shape >= RENAMED {
        for column in &mut columns {
            if *column == "aggregate_id" {
                *column = "customer_id";
            }
        }
    }
    columns
}

/// The columns of a shape, as SQL shows them.
pub(super) fn names(shape: usize) -> Vec<String> {
    columns(shape).into_iter().map(str::to_owned).collect()
}

/// The name of the table.
pub(super) const fn table_name(name: OutboxName) -> &'static str {
    match name {
        OutboxName::Configured => "outbox",
        OutboxName::Changed => "outbox_v2",
        OutboxName::Partition => "outbox_part",
    }
}

/// The OID under which rows are sent.
const fn oid(name: OutboxName) -> u32 {
    match name {
        OutboxName::Configured | OutboxName::Changed => OUTBOX,
        OutboxName::Partition => PARTITION,
    }
}

pub(super) fn relation(shape: usize, name: OutboxName) -> Vec<u8> {
    let columns: Vec<(&str, u32)> = columns(shape).into_iter().map(|name| (name, TEXT)).collect();
    wire::relation(oid(name), table_name(name), &columns)
}

/// The payload of an event. It equals no other column of the row, so that a mistaken column shows.
pub fn payload(number: usize) -> String {
    format!("payload {number}")
}

/// The payload of an event whose record is larger than its topic takes.
pub fn large_payload(number: usize) -> String {
    const SIZE: usize = 3_000;
    format!("{:SIZE$}", payload(number))
}

/// What follows the row of an event in its transaction, each time that the transaction is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextRow {
    /// The next event's row.
    Nothing,
    /// A row of another table.
    OtherTable,
    /// A row that the routers' configuration leaves out.
    Skipped,
}

pub(super) fn after(number: usize, event: &CommittedEvent, version: VersionGroup) -> NextRow {
    let seed = event.lsn ^ u64::try_from(number).expect("an index fits") << 32;
    match Random::new(seed).below(12) {
        0 => NextRow::OtherTable,
        1 if version.has_skipped_rows() => NextRow::Skipped,
        _ => NextRow::Nothing,
    }
}

/// The messages of a row that is no event.
pub(super) fn of_no_event(row: NextRow, after: &CommittedEvent) -> Vec<Vec<u8>> {
    let CommittedEvent { lsn, catalog, .. } = after;
    match row {
        NextRow::Nothing => Vec::new(),
        NextRow::OtherTable => vec![other_relation(), other_insert()],
        NextRow::Skipped => vec![skipped(*lsn, catalog.shape, catalog.name)],
    }
}

pub(super) fn begin(transaction: &CommittedTransaction) -> Vec<u8> {
    let CommittedTransaction { commit_lsn, committed_at, xid, .. } = transaction;
    wire::begin_of(*commit_lsn, *committed_at, *xid)
}

pub(super) fn insert(number: usize, event: &CommittedEvent) -> Vec<u8> {
    let payload = match event.kind {
        RowKind::TooLarge => large_payload(number),
        RowKind::Valid
        | RowKind::NullKey
        | RowKind::NullId
        | RowKind::IllegalTopic
        | RowKind::Oversized
        | RowKind::Refused => payload(number),
    };
    let number = number.to_string();
    let key = match event.kind {
        RowKind::NullKey => Value::Null,
        RowKind::Valid
        | RowKind::NullId
        | RowKind::IllegalTopic
        | RowKind::Oversized
        | RowKind::TooLarge
        | RowKind::Refused => Value::Text(IDS[event.key % IDS.len()]),
    };
    let topic = TYPES[event.key / IDS.len()];
    let illegal = format!("{topic}!");
    let values: Vec<Value<'_>> = columns(event.catalog.shape)
        .into_iter()
        .map(|column| match column {
            "id" if event.kind == RowKind::NullId => Value::Null,
            "id" => Value::Text(&number),
            "payload" => Value::Text(&payload),
            "aggregate_type" if event.kind == RowKind::IllegalTopic => Value::Text(&illegal),
            "aggregate_type" => Value::Text(topic),
            "aggregate_id" | "customer_id" => key,
            "event_type" => Value::Text(EVENT_TYPE),
            _ => Value::Text("no mapping uses this column"),
        })
        .collect();
    wire::insert(event.lsn, oid(event.catalog.name), &values)
}

/// A row that the routers' configuration leaves out.
pub(super) fn skipped(lsn: u64, shape: usize, name: OutboxName) -> Vec<u8> {
    let values: Vec<Value<'_>> = columns(shape)
        .into_iter()
        .map(|column| match column {
            "event_type" => Value::Text(SKIPPED),
            _ => Value::Text("no record has this"),
        })
        .collect();
    wire::insert(lsn, oid(name), &values)
}

fn other_relation() -> Vec<u8> {
    wire::relation(OTHER, "orders", &[("id", TEXT), ("payload", TEXT)])
}

fn other_insert() -> Vec<u8> {
    wire::insert(1, OTHER, &[Value::Text("1"), Value::Text("2")])
}

/// A frame as the trace prints it.
pub fn describe(frame: &[u8]) -> String {
    use pgoutput::{Frame, Message};
    match Frame::parse(frame) {
        Ok(Frame::Keepalive(keepalive)) => {
            format!("keepalive {} {:?}", keepalive.wal_end.as_u64(), keepalive.reply)
        }
        Ok(Frame::XLogData(data)) => match Message::parse(data.data) {
            Ok(Message::Begin(begin)) => format!("begin {}", begin.final_lsn.as_u64()),
            Ok(Message::Commit(commit)) => format!("commit, end {}", commit.end_lsn.as_u64()),
            Ok(Message::Insert(insert)) => {
                format!("insert into {:?} at {}", insert.relation, data.wal_start.as_u64())
            }
            Ok(Message::Relation(_)) => "relation".to_owned(),
            other => format!("{other:?}"),
        },
        Err(error) => error.to_string(),
    }
}
