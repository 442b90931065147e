//! When a whole partition may be dropped.

use pgoutput::Oid;

/// The rows of a partition, counted by why they stay: each by [`super::DeliveredRows`], and by
/// whether its event is open in the table of held events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartitionRows {
    /// All of them.
    pub all: u64,
    /// Not confirmed yet.
    pub undelivered: u64,
    /// Their events are open in the table of held events.
    pub held: u64,
    /// Written before the table, or the partition, was part of the outbox.
    pub older: u64,
}

/// Whether rows may have been written to a partition since its rows were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// Sessions may write to it.
    May,
    /// The session that counted holds a lock that keeps them out, until its transaction ends; the
    /// partition is attached, and stays so.
    KeptOut,
}

/// A partition that may be dropped in the transaction in which its rows were counted: each of them
/// is delivered. Only [`PartitionRows::droppable`] makes it.
#[derive(Debug, PartialEq, Eq)]
pub struct DroppablePartition {
    oid: Oid,
    rows: u64,
}

impl PartitionRows {
    /// Whether no row keeps the partition, as far as was counted.
    pub const fn may_go(self) -> bool {
        self.undelivered == 0 && self.held == 0 && self.older == 0
    }

    /// The proof that the partition may be dropped.
    pub fn droppable(self, oid: Oid, writers: Writers) -> Option<DroppablePartition> {
        (self.may_go() && writers == Writers::KeptOut)
            .then_some(DroppablePartition { oid, rows: self.all })
    }
}

impl DroppablePartition {
    /// The partition.
    pub const fn oid(&self) -> Oid {
        self.oid
    }

    /// How many rows go with it.
    pub const fn rows(&self) -> u64 {
        self.rows
    }
}
