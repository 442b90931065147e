//! What an acknowledgement did.

use pgoutput::PgTimestamp;

/// What a run of acknowledgements did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credit {
    /// It was counted; the transaction's latency is measured from here.
    Counted(PgTimestamp, Place),
    /// It belongs to an earlier session: the ledger knows nothing of it, and nothing is confirmed
    /// by it.
    Stale,
}

/// Where in the queue the transaction of an acknowledgement stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The oldest that is not settled: the confirmed position waits for it.
    Oldest,
    /// Behind another.
    Behind,
}
