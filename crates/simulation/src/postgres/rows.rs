//! Rows of the outbox as pgoutput messages, in the shape that the table had when they were written.

use relay::testing::wire::{self, TEXT, Value};

use crate::history::{CommittedEvent, CommittedTransaction, IDS, OutboxName, RowKind, TYPES};

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

pub(super) fn begin(transaction: &CommittedTransaction) -> Vec<u8> {
    let CommittedTransaction { commit_lsn, committed_at, xid, .. } = transaction;
    wire::begin_of(*commit_lsn, *committed_at, *xid)
}

pub(super) fn insert(number: usize, event: &CommittedEvent) -> Vec<u8> {
    let payload = payload(number);
    let number = number.to_string();
    let key = match event.kind {
        RowKind::Valid | RowKind::Oversized => Value::Text(IDS[event.key % IDS.len()]),
        RowKind::NullKey => Value::Null,
    };
    let values: Vec<Value<'_>> = columns(event.catalog.shape)
        .into_iter()
        .map(|column| match column {
            "id" => Value::Text(&number),
            "payload" => Value::Text(&payload),
            "aggregate_type" => Value::Text(TYPES[event.key / IDS.len()]),
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

pub(super) fn other_relation() -> Vec<u8> {
    wire::relation(OTHER, "orders", &[("id", TEXT), ("payload", TEXT)])
}

pub(super) fn other_insert() -> Vec<u8> {
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
