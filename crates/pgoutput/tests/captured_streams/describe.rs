//! Says in text what was decoded, one line a message: every field is in it, so that a snapshot
//! misses nothing the decoder could get wrong.

use std::fmt::Write;

use pgoutput::{Frame, KeyPart, Message, OldTuple, Relation, Tuple, TupleData, UpdatedFrom};

/// Longer values are told by their length and their beginning.
const SHOWN_BYTES: usize = 100;

pub(crate) fn stream<'a>(payloads: impl Iterator<Item = &'a [u8]>) -> String {
    let mut text = String::new();
    for payload in payloads {
        let line = match Frame::parse(payload) {
            Ok(Frame::Keepalive(keepalive)) => format!(
                "keepalive end {} sent {} reply {:?}",
                keepalive.wal_end,
                keepalive.sent_at.as_micros(),
                keepalive.reply
            ),
            Ok(Frame::XLogData(frame)) => format!(
                "{} {} sent {} {}",
                frame.wal_start,
                frame.wal_end,
                frame.sent_at.as_micros(),
                message(frame.data)
            ),
            Err(error) => format!("ERROR {error}"),
        };
        writeln!(text, "{line}").expect("a string grows");
    }
    text
}

fn message(bytes: &[u8]) -> String {
    match Message::parse(bytes) {
        Ok(Message::Begin(begin)) => format!(
            "begin final {} at {} xid {}",
            begin.final_lsn,
            begin.committed_at.as_micros(),
            begin.xid
        ),
        Ok(Message::Commit(commit)) => format!(
            "commit {} end {} at {}",
            commit.commit_lsn,
            commit.end_lsn,
            commit.committed_at.as_micros()
        ),
        Ok(Message::Origin(origin)) => {
            format!("origin {} at {}", quoted(origin.name), origin.commit_lsn)
        }
        Ok(Message::Relation(relation)) => describe_relation(&relation),
        Ok(Message::Type(name)) => {
            format!("type {} {}.{}", name.id, quoted(name.namespace), quoted(name.name))
        }
        Ok(Message::Insert(insert)) => format!("insert {} {}", insert.relation, row(&insert.tuple)),
        Ok(Message::Update(update)) => {
            let old = match update.old {
                UpdatedFrom::SameKey => "same key".to_owned(),
                UpdatedFrom::Changed(tuple) => old(&tuple),
            };
            format!("update {} {old} -> {}", update.relation, row(&update.new))
        }
        Ok(Message::Delete(delete)) => format!("delete {} {}", delete.relation, old(&delete.old)),
        Ok(Message::Truncate(truncate)) => {
            let tables: Vec<_> = truncate.relations().map(|oid| oid.to_string()).collect();
            format!(
                "truncate {} cascade {} restart identity {}",
                tables.join(" "),
                truncate.options.cascades(),
                truncate.options.restarts_identity()
            )
        }
        Ok(Message::Logical(logical)) => format!(
            "logical message {:?} at {} {}: {}",
            logical.delivery,
            logical.lsn,
            quoted(logical.prefix),
            quoted(logical.content)
        ),
        Ok(Message::StreamAbort(abort)) => {
            format!("stream abort xid {} subxid {}", abort.xid, abort.subxid)
        }
        Err(error) => format!("ERROR {error}"),
    }
}

fn describe_relation(relation: &Relation<'_>) -> String {
    let columns: Vec<_> = relation
        .columns()
        .map(|column| {
            let key = match column.key {
                KeyPart::Key => " key",
                KeyPart::Ordinary => "",
            };
            format!("{} {} {}{key}", quoted(column.name), column.type_oid, column.type_modifier)
        })
        .collect();
    format!(
        "relation {} {}.{} identity {:?} ({})",
        relation.id,
        quoted(relation.namespace),
        quoted(relation.name),
        relation.replica_identity,
        columns.join(", ")
    )
}

fn old(tuple: &OldTuple<'_>) -> String {
    match tuple {
        OldTuple::Key(key) => format!("key {}", row(key)),
        OldTuple::Full(full) => format!("full {}", row(full)),
    }
}

fn row(tuple: &Tuple<'_>) -> String {
    let columns: Vec<_> = tuple
        .iter()
        .map(|column| match column {
            TupleData::Null => "NULL".to_owned(),
            TupleData::UnchangedToast => "unchanged".to_owned(),
            TupleData::Text(value) => quoted(value),
            TupleData::Binary(value) => format!("binary {}", quoted(value)),
        })
        .collect();
    format!("({})", columns.join(", "))
}

fn quoted(bytes: &[u8]) -> String {
    match bytes.split_at_checked(SHOWN_BYTES) {
        Some((shown, rest)) if !rest.is_empty() => {
            format!("\"{}\"... {} bytes", shown.escape_ascii(), bytes.len())
        }
        Some(_) | None => format!("\"{}\"", bytes.escape_ascii()),
    }
}
