//! A partition of a topic that is read: its records that wait for their events, and how far it was
//! compared.

use std::collections::VecDeque;

use super::{limits::Size, record::bytes_of};
use crate::kafka::StoredRecord;

/// See the module's header.
#[derive(Debug)]
pub(super) struct Partition {
    /// Where it ended when its reading began.
    pub(super) end: i64,
    /// The offset of the first record that was paired.
    pub(super) first: Option<i64>,
    /// Records whose event is not known yet, in the order of their offsets.
    pub(super) queue: VecDeque<StoredRecord>,
    pub(super) bytes: usize,
    /// How many records at the head were there at the last `note_waiting`.
    pub(super) noted: usize,
    /// How many events have come whose records belong to it.
    pub(super) expected: u64,
    /// The latest of them, by its number among them, whose record was found.
    pub(super) latest: u64,
}

impl Partition {
    pub(super) fn ending_at(end: i64) -> Self {
        Self {
            end,
            first: None,
            queue: VecDeque::new(),
            bytes: 0,
            noted: 0,
            expected: 0,
            latest: 0,
        }
    }

    /// Adds the next record; `all` counts the records of every partition.
    pub(super) fn push(&mut self, record: StoredRecord, all: &mut Size) {
        let bytes = bytes(&record);
        all.add(bytes);
        self.bytes += bytes;
        self.queue.push_back(record);
    }

    /// Takes the record at the head.
    pub(super) fn pop(&mut self, all: &mut Size) -> Option<StoredRecord> {
        let record = self.queue.pop_front()?;
        self.noted = self.noted.saturating_sub(1);
        let bytes = bytes(&record);
        self.bytes = self.bytes.saturating_sub(bytes);
        all.remove(bytes);
        Some(record)
    }
}

fn bytes(record: &StoredRecord) -> usize {
    let StoredRecord { key, value, headers, .. } = record;
    size_of::<StoredRecord>() + bytes_of(key.as_deref(), value.as_deref(), headers)
}
