//! Which transactions have ended before a position.

use std::collections::VecDeque;

use pgoutput::{Lsn, Xid};

use super::{
    standing::Confirmed,
    xid::{FullXid, Horizon},
};

/// How many horizons wait to be confirmed: one that is as old as what is confirmed next, whatever
/// is behind, and few enough to be looked through at every reading.
pub(super) const WAITING_MAX: usize = 64;

/// Every transaction before one of a confirmed [`Horizon`] is confirmed. Only a horizon makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Covered {
    xmin: FullXid,
}

impl Horizon {
    /// What is confirmed, if the position has passed this horizon.
    pub fn covered(self, confirmed: &Confirmed) -> Option<Covered> {
        (self.lsn <= confirmed.position()).then_some(Covered { xmin: self.xmin })
    }
}

impl Covered {
    /// The first transaction that may not be confirmed.
    pub const fn before(self) -> FullXid {
        self.xmin
    }

    /// Whether a visible row with this `xmin` was written by a transaction that is confirmed.
    /// `next` is an id that no transaction has yet. A row that is too old to be compared may be
    /// kept wrongly, and none is deleted wrongly.
    pub const fn contains(self, row: Xid, next: FullXid) -> bool {
        self.xmin.follows(row, next)
    }
}

/// The horizons of one connection.
#[derive(Debug, Default)]
pub struct Horizons {
    /// In the order in which they were taken.
    pub(super) waiting: VecDeque<Horizon>,
    /// The greatest of those that are confirmed.
    covered: Option<Covered>,
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

    /// What is confirmed, when this position is; `None` while no horizon is confirmed.
    pub fn confirmed(&mut self, confirmed: &Confirmed) -> Option<Covered> {
        let covered = self.waiting.iter().filter_map(|horizon| horizon.covered(confirmed));
        self.covered = covered.max().max(self.covered);
        self.waiting.retain(|horizon| horizon.lsn > confirmed.position());
        self.covered
    }

    /// The position that has to be confirmed next; `None` where no horizon waits.
    pub fn waits_for(&self) -> Option<Lsn> {
        self.waiting.front().map(|horizon| horizon.lsn)
    }
}
