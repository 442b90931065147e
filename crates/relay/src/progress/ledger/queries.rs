//! What a ledger answers without changing.

use pgoutput::{Lsn, PgTimestamp};

use super::Ledger;
use crate::progress::WitnessStore;
use crate::progress::{
    ticket::{SIZE_UNIT, TransactionRef},
    transaction::LastTransaction,
};

/// Whether the next row of the open transaction is waited at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextRow {
    /// It has come, and cannot become a record yet.
    Waits,
    /// It has not come.
    Unread,
}

/// The oldest transaction with an event that is not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unacked {
    /// Where its commit record starts.
    pub(crate) commit_lsn: Lsn,
    /// When it was committed; its latency is measured from this.
    pub(crate) since: PgTimestamp,
}

impl Ledger {
    /// The oldest transaction with an event that is not acknowledged; a row that is waited at is
    /// one, too.
    pub(crate) fn oldest_unacked(&self, next: NextRow) -> Option<Unacked> {
        let front = self.entries.front()?;
        let is_unacked = !front.is_acked() || next == NextRow::Waits;
        is_unacked.then_some(Unacked { commit_lsn: front.commit_lsn, since: front.since })
    }

    /// A record's transaction, if it is one of this session's.
    pub(crate) fn transaction_of(&self, transaction: TransactionRef) -> Option<LastTransaction> {
        let index = self.index(transaction.number)?;
        let entry = self.entries.get(index)?;
        (transaction.session == self.session).then(|| entry.identity())
    }

    /// The last transaction with events before [`Ledger::settled`].
    pub(crate) fn last(&self) -> Option<LastTransaction> {
        self.last
    }

    /// Whether the settled position lies past the acknowledged witness.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.store == WitnessStore::Kafka && self.settled > self.window_start
    }

    /// Whether events lie between the acknowledged witness and the settled position.
    pub(crate) fn has_unwritten_events(&self) -> bool {
        self.settled_unwritten.events > 0
    }

    /// Whether everything received is settled and nothing is open.
    pub(crate) fn is_settled(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether everything received is settled and confirmed, and nothing is open.
    pub(crate) fn is_all_confirmed(&self) -> bool {
        self.is_settled() && self.confirmed == self.settled
    }

    /// Whether a transaction is being received.
    pub(crate) fn is_open(&self) -> bool {
        self.open().is_some()
    }

    /// Where the open transaction will commit.
    pub(crate) fn open_commit_lsn(&self) -> Option<Lsn> {
        self.open().map(|entry| entry.commit_lsn)
    }

    /// Where the oldest transaction that is not settled commits.
    pub(crate) fn oldest_commit_lsn(&self) -> Option<Lsn> {
        self.entries.front().map(|entry| entry.commit_lsn)
    }

    /// Whether every received transaction but the open one is settled.
    pub(crate) fn is_settled_but_for_open(&self) -> bool {
        self.entries.is_empty()
            || (self.entries.len() == 1 && self.is_open() && self.unacked.events == 0)
    }

    /// Events in the window, and their bytes.
    pub(crate) fn window(&self) -> (u64, u64) {
        (self.in_window.events, self.in_window.units * SIZE_UNIT)
    }

    /// Events that the broker has not acknowledged.
    pub(crate) fn unacked(&self) -> u64 {
        self.unacked.events
    }
}
