//! An event on its way to a listener: copied, since the core's borrows from the frame that its row
//! came in. Nothing of it is written as text before it has left the streaming task.

use relay::{Code, PgTimestamp, Record, Unsent, held::EventId, polling::RowId};

use super::{content::RawContent, outcome::Outcome};

/// See the module's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Routed {
    pub(super) row: Row,
    pub(super) outcome: Outcome,
    /// Why it became a dead letter.
    pub(super) code: Option<Code>,
    pub(super) topic: Option<String>,
    pub(super) sizes: Sizes,
    pub(super) content: Option<RawContent>,
    /// Events between the one before and this one that were wanted and found no room.
    pub(super) missed_before: u64,
}

/// The row of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) name: RowName,
    /// When its transaction was committed; of a row that was polled, when it was written by its
    /// time column, or, without one, when it was read.
    pub(super) at: PgTimestamp,
    pub(super) table: String,
    pub(super) aggregate_type: Option<String>,
    pub(super) event_type: Option<String>,
}

/// What a row is found again by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowName {
    /// By its place in WAL.
    Streamed(EventId),
    /// By its primary key.
    Polled(RowId),
}

/// What is shown of a record without showing its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) partition: Option<i32>,
    pub(super) key: Option<usize>,
    pub(super) value: ValueSize,
    pub(super) headers: usize,
}

/// What is known of a value without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueSize {
    Bytes(usize),
    /// Kafka's null.
    Tombstone,
    /// It could not be made.
    Unknown,
}

impl Sizes {
    pub(super) fn of_record(record: &Record<'_>) -> Self {
        Self {
            partition: Some(record.partition),
            key: Some(record.key.len()),
            value: record.value.map_or(ValueSize::Tombstone, |value| ValueSize::Bytes(value.len())),
            headers: record.headers.len(),
        }
    }

    /// A record that was not made has no partition.
    pub(super) fn of_unsent(unsent: &Unsent) -> Self {
        Self {
            partition: None,
            key: unsent.key.as_ref().map(Vec::len),
            value: match &unsent.value {
                Some(Some(value)) => ValueSize::Bytes(value.len()),
                Some(None) => ValueSize::Tombstone,
                None => ValueSize::Unknown,
            },
            headers: unsent.headers.len(),
        }
    }
}
