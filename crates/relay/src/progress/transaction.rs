//! What identifies a transaction across sessions.

use pgoutput::{Begin, Lsn, PgTimestamp, Xid};

/// What distinguishes a transaction from every other, even on a server that was restored to an
/// earlier state and has written other transactions since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastTransaction {
    /// Where its commit record begins.
    pub commit_lsn: Lsn,
    /// The first byte after the commit record.
    pub end_lsn: Lsn,
    /// The transaction id.
    pub xid: Xid,
    /// The server's clock at the commit.
    pub committed_at: PgTimestamp,
}

impl LastTransaction {
    /// The transaction that begins so, and ends there.
    pub const fn between(begin: &Begin, end_lsn: Lsn) -> Self {
        Self {
            commit_lsn: begin.final_lsn,
            end_lsn,
            xid: begin.xid,
            committed_at: begin.committed_at,
        }
    }
}
