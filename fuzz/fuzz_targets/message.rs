//! A message of the output plug-in: what is accepted can be iterated to its end, and a prefix of an
//! insert agrees with the insert.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgoutput::{Message, OldTuple, Tuple, UpdatedFrom, parse_insert_prefix};

fn read_whole(tuple: &Tuple<'_>) {
    assert_eq!(tuple.iter().count(), tuple.len());
}

fn read_old(old: &OldTuple<'_>) {
    match old {
        OldTuple::Key(tuple) | OldTuple::Full(tuple) => read_whole(tuple),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let prefix = parse_insert_prefix(bytes);
    let message = match Message::parse(bytes) {
        Ok(message) => message,
        Err(error) => {
            assert!(error.offset <= bytes.len());
            return;
        }
    };
    match message {
        Message::Insert(insert) => {
            read_whole(&insert.tuple);
            assert!(prefix.is_ok_and(|prefix| prefix.columns().eq(insert.tuple.iter())));
        }
        Message::Update(update) => {
            if let UpdatedFrom::Changed(old) = &update.old {
                read_old(old);
            }
            read_whole(&update.new);
        }
        Message::Delete(delete) => read_old(&delete.old),
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
});
