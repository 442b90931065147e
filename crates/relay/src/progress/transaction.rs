//! What identifies a transaction.

use pgoutput::{Lsn, PgTimestamp, Xid};

/// What tells a transaction from every other, on a server whose past may have been exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastTransaction {
    /// Where its commit record begins.
    pub commit_lsn: Lsn,
    /// The first byte after it.
    pub end_lsn: Lsn,
    /// Its number.
    pub xid: Xid,
    /// The server's clock at the commit.
    pub committed_at: PgTimestamp,
}
