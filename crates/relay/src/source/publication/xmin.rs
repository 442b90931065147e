//! Comparing `xmin` of a row of the catalog: the transaction that wrote the row.

/// `FrozenTransactionId` (access/transam.h): servers and tools may put it in the place of an old
/// `xmin`. VACUUM FULL of PostgreSQL 15 and 18 was seen to keep it.
pub(super) const FROZEN: u32 = 2;

/// Whether a row of the catalog was written again, by its `xmin`.
pub(super) fn is_written_again(before: u32, now: u32) -> bool {
    before != now && now != FROZEN
}
