//! What [`super::Ledger::credit`] did with acknowledgements.

use pgoutput::PgTimestamp;

/// What a run of acknowledgements did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credit {
    /// The run was counted. The transaction's latency is measured from this time.
    Counted(PgTimestamp, LedgerPlace),
    /// The run belongs to an earlier session: this ledger has no entry for it, and it confirms
    /// nothing.
    Stale,
}

/// Where in the ledger the transaction of an acknowledgement stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LedgerPlace {
    /// It was the oldest unsettled transaction: the confirmed position waits for it.
    Oldest,
    /// Another unsettled transaction stood before it.
    Behind,
}
