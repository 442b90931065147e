//! The OID of a held row's table. The router knows tables by their OIDs, and in another database
//! cluster another table may have the same one.

use pgoutput::Message;
use relay::{Failure, held::HeldMessages};

/// Of a table that does not exist here any more: no table has it, so its name counts.
pub(super) const OF_NO_TABLE: u32 = 1;

/// The schema and name of the row's table, as the messages have it.
///
/// # Errors
/// The messages are damaged (P007).
pub(super) fn table(messages: &[u8]) -> Result<Option<(String, String)>, Failure> {
    let mut table = None;
    for message in HeldMessages::new(messages).description() {
        if let (_, Message::Relation(relation)) = message? {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            table = Some((text(relation.namespace), text(relation.name)));
        }
    }
    Ok(table)
}

/// The same messages with this OID of the table, in the Relation and in the Insert message. Both
/// begin with it, after the letter of their kind; the length of each message stands before it.
pub(super) fn replaced(messages: &[u8], oid: u32) -> Vec<u8> {
    const LENGTH: usize = size_of::<u32>();
    let mut replaced = messages.to_vec();
    let mut at = 0;
    while let Some(length) = replaced.get(at..).and_then(|rest| rest.first_chunk::<LENGTH>()) {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let begin = at + LENGTH;
        if matches!(replaced.get(begin), Some(b'R' | b'I'))
            && let Some(place) = replaced.get_mut(begin + 1..begin + 1 + LENGTH)
        {
            place.copy_from_slice(&oid.to_be_bytes());
        }
        at = begin.saturating_add(length);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use relay::testing::wire::{self, TEXT, Value};

    use super::*;

    fn held(oid: u32) -> Vec<u8> {
        let messages = [
            wire::relation_message(oid, "outbox", &[("id", TEXT), ("payload", TEXT)]),
            wire::insert_message(oid, &[Value::Text("RIRI"), Value::Null]),
        ];
        messages.iter().fold(Vec::new(), |mut bytes, message| {
            bytes.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
            bytes.extend(message);
            bytes
        })
    }

    #[test]
    fn only_the_oid_of_the_table_is_replaced() {
        assert_eq!(replaced(&held(7), 16_401), held(16_401));
        assert_eq!(table(&held(7)).unwrap().unwrap().1, "outbox");
    }

    #[test]
    fn a_row_that_did_not_arrive_whole_or_is_damaged_stays_as_long_as_it_is() {
        let whole = held(7);
        for end in 0..whole.len() {
            let cut = replaced(&whole[..end], 9);
            assert_eq!(cut.len(), end);
        }
        assert!(table(&whole[..3]).is_err());
    }
}
