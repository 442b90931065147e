//! Which rows of an outbox may be deleted: those whose transactions the slot has confirmed. The
//! proof needs no clock, and nothing that the process remembers of rows.
//!
//! # The rule
//!
//! One SQL connection reads `pg_snapshot_xmin(pg_current_snapshot())`, and in a *later* statement
//! `pg_current_wal_insert_lsn()`. The pair is a [`Horizon`]. Every transaction with an id before
//! the horizon's `xmin` had ended when the position was read, because a transaction is in the list
//! of running ones until its commit record is written. So its commit ends at or before `lsn`. Once
//! a position at or past `lsn` is confirmed, every row that a later statement sees, and whose
//! `xmin` precedes the horizon's, is delivered, held, or filtered out.
//!
//! * It is not enough that a row's transaction is visible in the snapshot: a row that is written
//!   under a savepoint has the id of a subtransaction, which the list of running transactions does
//!   not contain. But such an id is greater than that of its transaction, so "before `xmin`" is
//!   right for both.
//! * The position must not be read before the snapshot is taken: a transaction may end in between,
//!   and its commit lies past that position.
//! * A horizon is valid on the connection that took it only. After a crash, the server gives the
//!   ids of transactions that it lost to others; but a crash ends every connection.
//! * A row has the lower 32 bits of an id, so they are compared modulo 2³²
//!   ([`Horizon::precedes`]).

use std::collections::VecDeque;

use pgoutput::{Lsn, Xid};

mod columns;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use columns::{RowColumns, row_columns};

/// How many horizons wait to be confirmed: one that is as old as what is confirmed next, whatever
/// is behind, and few enough to be looked through at every reading.
const WAITING_MAX: usize = 64;

/// Half of the ids that 32 bits can count: of two ids that are less far apart, it is known which
/// one is older. PostgreSQL stops before ids in use are further apart.
const HALF: u64 = 1 << 31;

/// Ids below are no transactions': rows with them were there when the cluster was made, or are
/// frozen.
const FIRST_NORMAL: u32 = 3;

/// A transaction id that does not wrap around (`xid8`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FullXid(u64);

impl FullXid {
    /// The transaction id with this number.
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// The transaction id as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The id as a row has it.
    #[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "the lower half")]
    pub const fn of_row(self) -> Xid {
        Xid::from_u32(self.0 as u32)
    }
}

/// Every transaction with an id before `xmin` had ended when the end of WAL was at `lsn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// The oldest transaction that was running, or the next one.
    pub xmin: FullXid,
    /// The end of WAL, read after `xmin`.
    pub lsn: Lsn,
}

impl Horizon {
    /// Whether a visible row with this `xmin` was written by a transaction before the horizon's.
    /// `next` is an id that no transaction has yet.
    ///
    /// A row that is too old to be compared may be kept wrongly, and none is deleted wrongly.
    pub const fn precedes(xmin: FullXid, row: Xid, next: FullXid) -> bool {
        if row.as_u32() < FIRST_NORMAL {
            return true;
        }
        // Else a row of a later transaction might look older.
        if next.as_u64().saturating_sub(xmin.as_u64()) >= HALF {
            return false;
        }
        let older_by = xmin.of_row().as_u32().wrapping_sub(row.as_u32());
        older_by >= 1 && older_by < 1 << 31
    }
}

/// The horizons of one connection.
#[derive(Debug, Default)]
pub struct Horizons {
    /// In the order in which they were taken.
    waiting: VecDeque<Horizon>,
    /// The greatest `xmin` of those that are confirmed.
    covered: Option<FullXid>,
}

impl Horizons {
    /// Adds a horizon that was just taken.
    pub fn offer(&mut self, horizon: Horizon) {
        if self.waiting.len() == WAITING_MAX {
            // Every second one: the oldest stays, and is confirmed first.
            let mut keep = false;
            self.waiting.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.waiting.push_back(horizon);
    }

    /// The `xmin` before which everything is confirmed, when this position is; `None` while no
    /// horizon is confirmed.
    pub fn confirmed(&mut self, position: Lsn) -> Option<FullXid> {
        let covered = self.waiting.iter().filter(|horizon| horizon.lsn <= position);
        self.covered = covered.map(|horizon| horizon.xmin).max().max(self.covered);
        self.waiting.retain(|horizon| horizon.lsn > position);
        self.covered
    }

    /// The position that has to be confirmed next; `None` where no horizon waits.
    pub fn waits_for(&self) -> Option<Lsn> {
        self.waiting.front().map(|horizon| horizon.lsn)
    }
}
