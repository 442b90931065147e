//! Nothing a network can deliver makes the decoder panic, and what it accepts it can also iterate.

use super::wire;
use crate::{
    Frame, Insert, Lsn, Message, OldTuple, PgTimestamp, ReplyRequest, StandbyStatusUpdate, Tuple,
    UpdatedFrom, parse_insert_prefix,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::format;
use std::vec::Vec;

/// A valid message that was damaged in up to four places and perhaps cut.
fn damaged_message() -> impl Strategy<Value = Vec<u8>> {
    let damage = vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let message = prop::sample::select(wire::messages());
    (message, damage, any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(mut message, damage, cut, keep)| {
            for (place, byte) in damage {
                let place = place.index(message.len());
                message[place] = byte;
            }
            if !keep {
                message.truncate(cut.index(message.len()));
            }
            message
        },
    )
}

/// Bytes that begin like a message, so that random input gets past the first byte.
fn tagged_bytes() -> impl Strategy<Value = Vec<u8>> {
    let tag = prop::sample::select(b"BCORYIUDTMAwkr".as_slice());
    (tag, vec(any::<u8>(), 0..120)).prop_map(|(tag, mut bytes)| {
        bytes.insert(0, tag);
        bytes
    })
}

fn reads_whole(tuple: &Tuple<'_>) {
    assert_eq!(tuple.iter().count(), tuple.len());
}

fn old_reads_whole(old: &OldTuple<'_>) {
    match old {
        OldTuple::Key(tuple) | OldTuple::Full(tuple) => reads_whole(tuple),
    }
}

/// Decodes with every entry point and reads everything that came out.
fn survive(bytes: &[u8]) {
    if let Ok(frame) = Frame::parse(bytes) {
        assert!(!format!("{frame:?}").is_empty());
    }
    if let Ok(prefix) = parse_insert_prefix(bytes) {
        let columns = prefix.columns().count();
        assert_eq!(columns, prefix.columns().len());
        assert_eq!(prefix.cut.is_none(), columns == prefix.announced);
    }
    let insert = Insert::parse(bytes).map(|insert| insert.map(Message::Insert));
    assert_eq!(insert.is_some(), bytes.first() == Some(&b'I'));
    assert!(insert.is_none_or(|insert| insert == Message::parse(bytes)), "two ways to one insert");
    let message = match Message::parse(bytes) {
        Ok(message) => message,
        Err(error) => {
            assert!(error.offset <= bytes.len(), "{error}");
            return;
        }
    };
    assert!(!format!("{message:?}").is_empty());
    match message {
        Message::Insert(insert) => reads_whole(&insert.tuple),
        Message::Update(update) => {
            if let UpdatedFrom::Changed(old) = &update.old {
                old_reads_whole(old);
            }
            reads_whole(&update.new);
        }
        Message::Delete(delete) => old_reads_whole(&delete.old),
        Message::Relation(relation) => {
            assert_eq!(relation.columns().count(), relation.columns().len());
        }
        Message::Truncate(truncate) => {
            assert_eq!(truncate.relations().count(), truncate.relations().len());
        }
        Message::Begin(_)
        | Message::Commit(_)
        | Message::Origin(_)
        | Message::Type(_)
        | Message::Logical(_)
        | Message::StreamAbort(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn arbitrary_bytes_are_decoded_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        survive(&bytes);
    }

    #[test]
    fn arbitrary_bytes_behind_a_known_tag_are_decoded_or_refused(bytes in tagged_bytes()) {
        survive(&bytes);
    }

    #[test]
    fn damaged_messages_are_decoded_or_refused(bytes in damaged_message()) {
        survive(&bytes);
    }

    #[test]
    fn a_prefix_is_accepted_whenever_the_insert_is(bytes in damaged_message()) {
        if let Ok(Message::Insert(insert)) = Message::parse(&bytes) {
            let prefix = parse_insert_prefix(&bytes);
            prop_assert!(prefix.is_ok_and(|prefix| prefix.columns().eq(insert.tuple.iter())));
        }
    }

    #[test]
    fn a_status_update_survives_being_written_and_read(
        positions: [u64; 3],
        clock: i64,
        requested: bool,
    ) {
        let [write, flush, apply] = positions.map(Lsn::from_u64);
        let reply = if requested { ReplyRequest::Requested } else { ReplyRequest::Optional };
        let clock = PgTimestamp::from_micros(clock);
        let update = StandbyStatusUpdate { write, flush, apply, clock, reply };
        prop_assert_eq!(StandbyStatusUpdate::parse(&update.encode()), Ok(update));
    }
}
