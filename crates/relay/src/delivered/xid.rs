//! Transaction ids, as snapshots and as rows have them, and when transactions had ended.

use pgoutput::{Lsn, Xid};

/// Half of the ids that 32 bits can count: of two ids that are less far apart, it is known which
/// one is older. PostgreSQL stops before ids in use are further apart.
pub(super) const HALF: u64 = 1 << 31;

/// Ids below are no transactions': rows with them were there when the cluster was made, or are
/// frozen.
pub(super) const FIRST_NORMAL: u32 = 3;

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

    /// Whether a visible row with this `xmin` was written by a transaction before this one. `next`
    /// is an id that no transaction has yet.
    ///
    /// A row that is too old to be compared may look younger, and none looks older.
    pub const fn follows(self, row: Xid, next: Self) -> bool {
        if row.as_u32() < FIRST_NORMAL {
            return true;
        }
        // Else a row of a later transaction might look older.
        if next.0.saturating_sub(self.0) >= HALF {
            return false;
        }
        let older_by = self.of_row().as_u32().wrapping_sub(row.as_u32());
        older_by >= 1 && older_by < 1 << 31
    }

    /// The id of a row, or of a row of the catalog, at a time when `next` is an id that no
    /// transaction has yet; `None` where the row is too old for its id to say which one it is.
    pub fn of_past(row: Xid, next: Self) -> Option<Self> {
        if row.as_u32() < FIRST_NORMAL {
            return Some(Self(u64::from(row.as_u32())));
        }
        let age = u64::from(next.of_row().as_u32().wrapping_sub(row.as_u32()));
        next.0.checked_sub(age).filter(|_| age < HALF).map(Self)
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
