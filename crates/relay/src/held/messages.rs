//! The messages of one event, as the server sent them, in one byte string.
//!
//! ```text
//! (length u32, Type message)* (length u32, Relation message) (length u32, Insert message)
//! ```
//! They are what the core needs to route the row again. A row that is larger than
//! `limits.row_bytes` did not arrive whole; it has no Insert message.

use pgoutput::{Insert, Message};

use crate::failure::{Code, Failure};

/// The messages of one event.
#[derive(Debug, Clone, Copy)]
pub struct HeldMessages<'a>(&'a [u8]);

impl<'a> HeldMessages<'a> {
    /// The messages in a byte string that `push` has written.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The Insert message; `None` for a row that did not arrive whole.
    ///
    /// # Errors
    /// The bytes are damaged (P007).
    pub fn insert(self) -> Result<Option<Insert<'a>>, Failure> {
        match self.last() {
            Some(last) => {
                let message = Message::parse(last)?;
                Ok(if let Message::Insert(insert) = message { Some(insert) } else { None })
            }
            None => Err(damaged()),
        }
    }

    /// The messages before the row: types and relation.
    ///
    /// # Errors
    /// The bytes are damaged (P007).
    pub fn description(self) -> impl Iterator<Item = Result<(&'a [u8], Message<'a>), Failure>> {
        let is_row = |bytes: &&[u8]| bytes.first() == Some(&b'I');
        self.split().filter(move |bytes| !bytes.as_ref().is_ok_and(is_row)).map(|bytes| {
            let bytes = bytes?;
            Ok((bytes, Message::parse(bytes)?))
        })
    }

    /// The bytes of types and relation, by which two events are seen to have the same.
    pub fn description_bytes(self) -> &'a [u8] {
        match self.last() {
            Some(last) if last.first() == Some(&b'I') => {
                self.0.get(..self.0.len() - last.len() - LENGTH).unwrap_or(self.0)
            }
            Some(_) | None => self.0,
        }
    }

    fn last(self) -> Option<&'a [u8]> {
        self.split().last()?.ok()
    }

    fn split(self) -> impl Iterator<Item = Result<&'a [u8], Failure>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let split = split_first(rest);
            rest = split.map_or(&[], |(_, rest)| rest);
            Some(split.map(|(message, _)| message).ok_or_else(damaged))
        })
    }
}

const LENGTH: usize = size_of::<u32>();

fn split_first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

/// Appends a message. A message of the stream has 1 GiB at most.
pub(crate) fn push(messages: &mut Vec<u8>, message: &[u8]) {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    messages.extend_from_slice(&length.to_be_bytes());
    messages.extend_from_slice(message);
}

#[cold]
fn damaged() -> Failure {
    Failure::new(Code::Protocol, "the messages of a held event are damaged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::wire::{self, TEXT, Value};

    /// What follows the header of an `XLogData` frame.
    fn data(frame: Vec<u8>) -> Vec<u8> {
        frame[25..].to_vec()
    }

    #[test]
    fn what_was_pushed_is_found_again() {
        let relation = data(wire::relation(7, "outbox", &[("id", TEXT)]));
        let row = data(wire::insert(1, 7, &[Value::Text("a")]));
        let mut bytes = Vec::new();
        push(&mut bytes, &relation);
        let before_row = bytes.len();
        push(&mut bytes, &row);
        let messages = HeldMessages::new(&bytes);
        assert_eq!(messages.insert().unwrap().unwrap().tuple.iter().len(), 1);
        assert_eq!(messages.description().count(), 1);
        assert_eq!(messages.description_bytes(), &bytes[..before_row]);
        let cut = HeldMessages::new(&bytes[..before_row]);
        assert!(cut.insert().unwrap().is_none(), "the row did not arrive whole");
        assert_eq!(cut.description_bytes(), &bytes[..before_row]);
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let row = data(wire::insert(1, 7, &[Value::Text("a")]));
        let mut bytes = Vec::new();
        push(&mut bytes, &row);
        for cut in 1..bytes.len() {
            let messages = HeldMessages::new(&bytes[..cut]);
            let is_damaged = messages.insert().is_err()
                || messages.description().any(|message| message.is_err());
            assert!(is_damaged, "cut at {cut}");
        }
    }
}
