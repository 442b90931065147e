//! The decoder on what PostgreSQL really sent: every stream in `tests/fixtures` is decoded whole
//! and compared with the text checked in beside it. `fixtures/README.md` says how to capture anew.

mod capture;
mod describe;

use std::collections::HashMap;

use capture::{Capture, captures};
use pgoutput::{
    Delivery, Frame, Lsn, Message, Oid, OldTuple, ReplicaIdentity, ReplyRequest, Tuple, TupleData,
    UpdatedFrom, parse_insert_prefix,
};

/// All messages of a capture, in order.
fn messages(capture: &Capture) -> impl Iterator<Item = Message<'_>> {
    capture.payloads().filter_map(|payload| {
        match Frame::parse(payload).expect("a captured frame") {
            Frame::XLogData(frame) => Some(Message::parse(frame.data).expect("a captured message")),
            Frame::Keepalive(_) => None,
        }
    })
}

/// All rows in a message, old and new, each with its table.
fn rows_of(message: Message<'_>) -> Vec<(Oid, Tuple<'_>)> {
    match message {
        Message::Insert(insert) => vec![(insert.relation, insert.tuple)],
        Message::Update(update) => match update.old {
            UpdatedFrom::SameKey => vec![(update.relation, update.new)],
            UpdatedFrom::Changed(OldTuple::Key(old) | OldTuple::Full(old)) => {
                vec![(update.relation, old), (update.relation, update.new)]
            }
        },
        Message::Delete(delete) => match delete.old {
            OldTuple::Key(old) | OldTuple::Full(old) => vec![(delete.relation, old)],
        },
        Message::Begin(_)
        | Message::Commit(_)
        | Message::Origin(_)
        | Message::Relation(_)
        | Message::Type(_)
        | Message::Truncate(_)
        | Message::Logical(_)
        | Message::StreamAbort(_) => Vec::new(),
    }
}

fn rows(capture: &Capture) -> impl Iterator<Item = (Oid, Tuple<'_>)> {
    messages(capture).flat_map(rows_of)
}

#[test]
fn every_capture_decodes_to_its_snapshot() {
    for capture in captures() {
        capture.compare_with_snapshot(&describe::stream(capture.payloads()));
    }
}

#[test]
fn the_captures_of_all_tables_hold_every_kind_of_message() {
    for capture in captures().into_iter().filter(|capture| !capture.is_binary()) {
        let any = |what: &str, test: &dyn Fn(&Message<'_>) -> bool| {
            assert!(messages(&capture).any(|message| test(&message)), "{}: {what}", capture.name());
        };
        let has_column = |message: &Message<'_>, wanted: TupleData<'_>| matches!(message, Message::Insert(insert) if insert.tuple.iter().any(|c| c == wanted));
        any("origin", &|m| matches!(m, Message::Origin(_)));
        any("type", &|m| matches!(m, Message::Type(_)));
        any("truncate", &|m| matches!(m, Message::Truncate(_)));
        any("NULL", &|m| has_column(m, TupleData::Null));
        any("empty text", &|m| has_column(m, TupleData::Text(b"")));
        any(
            "unchanged toast",
            &|m| matches!(m, Message::Update(u) if u.new.iter().any(|c| c == TupleData::UnchangedToast)),
        );
        any(
            "update of the same key",
            &|m| matches!(m, Message::Update(u) if u.old == UpdatedFrom::SameKey),
        );
        any(
            "update of a key",
            &|m| matches!(m, Message::Update(u) if matches!(u.old, UpdatedFrom::Changed(OldTuple::Key(_)))),
        );
        any(
            "update of a full row",
            &|m| matches!(m, Message::Update(u) if matches!(u.old, UpdatedFrom::Changed(OldTuple::Full(_)))),
        );
        any(
            "delete by key",
            &|m| matches!(m, Message::Delete(d) if matches!(d.old, OldTuple::Key(_))),
        );
        any(
            "delete of a full row",
            &|m| matches!(m, Message::Delete(d) if matches!(d.old, OldTuple::Full(_))),
        );
        for delivery in [Delivery::Transactional, Delivery::Immediate] {
            any(
                "logical message",
                &|m| matches!(m, Message::Logical(logical) if logical.delivery == delivery),
            );
        }
        for identity in [
            ReplicaIdentity::Default,
            ReplicaIdentity::Nothing,
            ReplicaIdentity::Full,
            ReplicaIdentity::Index,
        ] {
            any(
                "replica identity",
                &|m| matches!(m, Message::Relation(r) if r.replica_identity == identity),
            );
        }
    }
}

#[test]
fn every_capture_holds_both_kinds_of_keepalive() {
    for capture in captures() {
        for wanted in [ReplyRequest::Optional, ReplyRequest::Requested] {
            let found = capture.payloads().any(|payload| {
                matches!(Frame::parse(payload), Ok(Frame::Keepalive(k)) if k.reply == wanted)
            });
            assert!(found, "{}: {wanted:?}", capture.name());
        }
    }
}

#[test]
fn binary_values_come_only_with_the_option() {
    for capture in captures() {
        let binary = rows(&capture)
            .any(|(_, row)| row.iter().any(|column| matches!(column, TupleData::Binary(_))));
        assert_eq!(binary, capture.is_binary(), "{}", capture.name());
    }
}

#[test]
fn transactions_are_whole_and_in_the_order_of_their_commits() {
    for capture in captures() {
        let (mut open, mut confirmed) = (None, Lsn::ZERO);
        for message in messages(&capture) {
            match message {
                Message::Begin(begin) => assert_eq!(open.replace(begin.final_lsn), None),
                Message::Commit(commit) => {
                    assert_eq!(open.take(), Some(commit.commit_lsn));
                    assert!(confirmed <= commit.commit_lsn && commit.commit_lsn < commit.end_lsn);
                    confirmed = commit.end_lsn;
                }
                Message::Logical(logical) => {
                    let transactional = logical.delivery == Delivery::Transactional;
                    assert_eq!(open.is_some(), transactional, "{logical:?}");
                }
                Message::Origin(_)
                | Message::Relation(_)
                | Message::Type(_)
                | Message::Insert(_)
                | Message::Update(_)
                | Message::Delete(_)
                | Message::Truncate(_)
                | Message::StreamAbort(_) => {
                    assert!(open.is_some(), "{message:?} outside a transaction");
                }
            }
        }
        assert_eq!(open, None, "{} ends inside a transaction", capture.name());
    }
}

#[test]
fn every_row_has_the_columns_of_its_last_relation_message() {
    for capture in captures() {
        let mut columns: HashMap<Oid, usize> = HashMap::new();
        for message in messages(&capture) {
            if let Message::Relation(relation) = message {
                columns.insert(relation.id, relation.columns().len());
            }
            for (relation, row) in rows_of(message) {
                assert_eq!(columns.get(&relation), Some(&row.len()), "{}", capture.name());
            }
        }
    }
}

#[test]
fn rolled_back_work_is_not_there() {
    for capture in captures() {
        for (relation, row) in rows(&capture) {
            let aborted = row.iter().any(|column| {
                matches!(column, TupleData::Text(text) if text.starts_with(b"rolled back"))
            });
            assert!(!aborted, "{}: a row of relation {relation}", capture.name());
        }
    }
}

#[test]
fn every_cut_of_a_captured_message_is_refused() {
    for capture in captures() {
        for payload in capture.payloads() {
            let Ok(Frame::XLogData(frame)) = Frame::parse(payload) else { continue };
            for length in 0..frame.data.len() {
                assert!(Message::parse(&frame.data[..length]).is_err(), "{}", capture.name());
            }
        }
    }
}

#[test]
fn every_cut_of_a_captured_insert_yields_its_first_columns() {
    for capture in captures() {
        for payload in capture.payloads() {
            let Ok(Frame::XLogData(frame)) = Frame::parse(payload) else { continue };
            let Ok(Message::Insert(insert)) = Message::parse(frame.data) else { continue };
            let row: Vec<_> = insert.tuple.iter().collect();
            // The tag, the relation's OID, `N` and the number of columns are 8 bytes.
            for length in 8..frame.data.len() {
                let prefix = parse_insert_prefix(&frame.data[..length]).expect("a prefix");
                assert_eq!(prefix.relation, insert.relation);
                assert_eq!(prefix.announced, row.len());
                assert!(row.starts_with(&prefix.columns().collect::<Vec<_>>()));
                assert!(prefix.cut.is_some());
            }
        }
    }
}
