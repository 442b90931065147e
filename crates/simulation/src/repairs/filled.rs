//! The rows that a run of `setup --backfill` has sent, kept beside the product to judge it.

use std::collections::{BTreeMap, BTreeSet};

use relay::{Xid, delivered::FullXid};

use super::database::{Database, Row};

/// The rows that a run has sent, over all of its processes.
#[derive(Debug, Default)]
pub struct Filled {
    /// The oldest transaction that was open when the first snapshot of the run was taken, and the
    /// partitions with who attached them. `None`: the server was replaced since, and may have
    /// forgotten how far the run was.
    first: Option<(u64, BTreeMap<u32, u32>)>,
    sent: BTreeSet<u64>,
    /// Rows that a process had sent and not noted when it ended.
    interrupted: BTreeSet<u64>,
}

impl Filled {
    /// The first snapshot of a run.
    pub fn begin(&mut self, snapshot: &Database) {
        let first = Some((snapshot.snapshot_xmin(), snapshot.parts.clone()));
        *self = Self { first, ..Self::default() };
    }

    /// The server was replaced.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// A process ends that has not noted these.
    pub fn interrupt(&mut self, not_noted: &[u64]) {
        self.interrupted.extend(not_noted);
    }

    /// Notes a row. Returns whether it may be sent: for the first time, or because a process was
    /// interrupted, or because it may have come since the first snapshot.
    pub fn send(&mut self, row: &Row, snapshot: &Database, next: u64) -> bool {
        let Some((first, parts)) = &self.first else { return true };
        // A partition that neither snapshot shows was attached behind the last one.
        let is_in_both =
            |part| parts.get(&part).is_some_and(|by| snapshot.parts.get(&part) == Some(by));
        let is_attached_since = row.part.is_some_and(|part| !is_in_both(part));
        // Its transaction, or that which attached its partition, may have been open when the first
        // snapshot was taken.
        let first = FullXid::from_u64(*first);
        let is_since = |xid: Xid| !first.follows(xid, FullXid::from_u64(next));
        let attached_by = row.part.and_then(|part| parts.get(&part).copied());
        let may_repeat = is_since(row.xmin.of_row())
            || is_attached_since
            || attached_by.is_some_and(|by| is_since(Xid::from_u32(by)))
            || self.interrupted.contains(&row.row);
        self.sent.insert(row.row) || may_repeat
    }

    /// A row that was sent, and that the slot sends again.
    pub fn comes_again(&self, database: &Database) -> Option<u64> {
        self.sent.iter().copied().find(|row| database.slot_sends(*row))
    }
}
