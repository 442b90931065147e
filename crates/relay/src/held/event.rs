//! An event that is held, with everything that is needed to deliver it later.

use pgoutput::PgTimestamp;

use super::{EventId, KeyHash};
use crate::failure::Code;

/// Why an event is a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// The code of its failure.
    pub code: Code,
    /// The failure's message.
    pub message: String,
}

/// An event that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldEvent {
    /// What it is known by.
    pub id: EventId,
    /// When its transaction was committed.
    pub committed_at: PgTimestamp,
    /// Its record's key, where it has one.
    pub key: Option<Vec<u8>>,
    /// What it is held by.
    pub hash: KeyHash,
    /// The value of the id column, where it can be read.
    pub event_id: Option<String>,
    /// The outbox table, `schema.name`.
    pub table: String,
    /// Type, Relation and Insert messages: see [`HeldMessages`](super::HeldMessages).
    pub messages: Vec<u8>,
    /// Why it is a dead letter; `None` for an event that is held behind one.
    pub letter: Option<Letter>,
}

impl HeldEvent {
    /// What [`HeldEvent::bytes`] counts beside messages and key; the table's SQL counts it, too.
    pub const OVERHEAD: usize = 256;

    /// The bytes that it takes in the table and in memory, roughly: what limits and the window
    /// count.
    pub fn bytes(&self) -> usize {
        self.messages.len() + self.key.as_ref().map_or(0, Vec::len) + Self::OVERHEAD
    }
}
