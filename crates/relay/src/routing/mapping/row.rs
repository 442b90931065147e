//! What a mapping made of one row, in buffers that are reused from row to row.

use std::{num::NonZeroI32, ops::Range};

use crate::routing::{record::PartitionAndTime, table::Role};

/// What a mapping made of one row.
#[derive(Debug, Default)]
pub(crate) struct MappedRow {
    /// All texts, one after the other.
    pub(super) text: String,
    /// Values that take the place of what the row has, by role; `None` is NULL.
    pub(super) values: Vec<(Role, Option<Range<usize>>)>,
    /// Milliseconds since 1970, where the row has a time of its own.
    pub(super) time: Option<i64>,
    /// The record's partition, where the row has one; `None`: the key's.
    pub(super) partition: Option<i32>,
}

impl MappedRow {
    /// Forgets the row before.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.values.clear();
        (self.time, self.partition) = (None, None);
    }

    /// Sets what was written since `start` as the value of a role.
    pub(super) fn set_written(&mut self, role: Role, start: usize) {
        self.values.push((role, Some(start..self.text.len())));
    }

    /// The value that was set last for a role; the inner `None` is NULL.
    pub(super) fn value(&self, role: Role) -> Option<Option<&str>> {
        let (_, range) = self.values.iter().rev().find(|(known, _)| *known == role)?;
        Some(range.clone().map(|range| self.text.get(range).unwrap_or_default()))
    }

    /// The values that take the place of what the row has, the last of a role being the one that
    /// counts; `None` is NULL.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Role, Option<&str>)> {
        self.values.iter().map(|(role, range)| {
            (*role, range.clone().map(|range| self.text.get(range).unwrap_or_default()))
        })
    }

    /// What the mapping sets of partition and time, else `usual`.
    ///
    /// # Errors
    /// The partition that the row names, which the topic does not have.
    #[cold]
    #[inline(never)]
    pub(crate) fn override_with(
        &self,
        usual: PartitionAndTime,
        partitions: NonZeroI32,
    ) -> Result<PartitionAndTime, i32> {
        let partition = self.partition.unwrap_or(usual.partition);
        if partition >= partitions.get() {
            return Err(partition);
        }
        Ok(PartitionAndTime { partition, timestamp_ms: self.time.unwrap_or(usual.timestamp_ms) })
    }
}
