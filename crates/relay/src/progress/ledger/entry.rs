//! What the ledger keeps of one transaction: a few counters.

use pgoutput::{Begin, Lsn, PgTimestamp, Xid};

use crate::progress::{ticket::SIZE_UNIT, transaction::LastTransaction, window::Window};

/// Events and their size, in units of [`crate::Ticket`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) events: u64,
    pub(super) units: u64,
}

impl Load {
    pub(super) fn add(&mut self, other: Self) {
        self.events += other.events;
        self.units += other.units;
    }

    pub(super) fn remove(&mut self, other: Self) {
        self.events = self.events.saturating_sub(other.events);
        self.units = self.units.saturating_sub(other.units);
    }

    pub(super) fn fits(self, window: Window) -> bool {
        self.events < window.events && self.units.saturating_mul(SIZE_UNIT) < window.bytes
    }
}

/// A transaction with events that are not settled, or one that is being received.
#[derive(Debug)]
pub(super) struct Entry {
    /// Where the commit record starts.
    pub(super) commit_lsn: Lsn,
    /// The first byte after the commit record; zero before it was seen.
    pub(super) end_lsn: Lsn,
    xid: Xid,
    committed_at: PgTimestamp,
    /// The time that latency is measured from: the commit time, unless another server set it.
    pub(super) since: PgTimestamp,
    pub(super) progress: EntryProgress,
    /// All events of the transaction that were produced, and the rows that `where` leaves out.
    pub(super) load: Load,
    /// The events among them that the broker has not acknowledged.
    pub(super) unacked: Load,
}

impl Entry {
    pub(super) fn open(begin: &Begin) -> Self {
        Self {
            commit_lsn: begin.final_lsn,
            end_lsn: Lsn::ZERO,
            xid: begin.xid,
            committed_at: begin.committed_at,
            since: begin.committed_at,
            progress: EntryProgress::Open,
            load: Load::default(),
            unacked: Load::default(),
        }
    }

    /// What distinguishes the transaction from every other.
    pub(super) fn identity(&self) -> LastTransaction {
        LastTransaction {
            commit_lsn: self.commit_lsn,
            end_lsn: self.end_lsn,
            xid: self.xid,
            committed_at: self.committed_at,
        }
    }

    /// Whether the broker has acknowledged everything that was produced of it so far.
    pub(super) fn is_acked(&self) -> bool {
        self.unacked.events == 0
    }

    /// Where the transaction ends, if it is complete and acknowledged.
    pub(super) fn settled_end(&self) -> Option<Lsn> {
        match self.progress {
            EntryProgress::Complete(end) if self.is_acked() => Some(end),
            EntryProgress::Complete(_) | EntryProgress::Open => None,
        }
    }

    /// Whether everything so far is acknowledged, of a transaction whose commit has not been seen.
    pub(super) fn is_acked_but_open(&self) -> bool {
        self.progress == EntryProgress::Open && self.is_acked() && self.load.events > 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryProgress {
    /// The commit has not been seen.
    Open,
    /// Received completely. No event follows it before this position.
    Complete(Lsn),
}

/// Whether a transaction carried events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    /// At least one.
    Events,
    /// None: the transaction only moves the position.
    Nothing,
}
