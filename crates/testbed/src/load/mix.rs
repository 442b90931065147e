//! What transactions do, and how often.

use rand::RngExt;
use rand::rngs::StdRng;

/// A kind of transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TransactionKind {
    /// One statement, one event, committed by itself.
    Single,
    /// Several INSERT statements.
    Several,
    /// One INSERT of several rows.
    MultiRow,
    /// COPY.
    Copy,
    /// Some events, then others that a savepoint takes back, then more.
    Savepoint,
    /// Events that are all rolled back.
    Rollback,
    /// Events written a second time with ON CONFLICT, once ignored and once updated: only the first
    /// version is an event.
    Upsert,
    /// Events whose rows are deleted again before the commit: they are events all the same.
    InsertDelete,
    /// A prepared transaction, mostly committed and sometimes rolled back.
    Prepared,
}

impl TransactionKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Single,
        Self::Several,
        Self::MultiRow,
        Self::Copy,
        Self::Savepoint,
        Self::Rollback,
        Self::Upsert,
        Self::InsertDelete,
        Self::Prepared,
    ];
}

/// Weights of kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix(Vec<(TransactionKind, u32)>);

impl Default for Mix {
    /// Every kind; the common ones more often.
    fn default() -> Self {
        Self(
            TransactionKind::ALL
                .map(|kind| (kind, if kind == TransactionKind::Single { 4 } else { 1 }))
                .to_vec(),
        )
    }
}

impl Mix {
    /// The same mix without one kind.
    #[must_use]
    pub fn without(mut self, kind: TransactionKind) -> Self {
        self.0.retain(|(found, _)| *found != kind);
        self
    }

    pub(super) fn pick(&self, random: &mut StdRng) -> TransactionKind {
        let total: u32 = self.0.iter().map(|(_, weight)| weight).sum();
        let mut left = random.random_range(0..total.max(1));
        for (kind, weight) in &self.0 {
            if left < *weight {
                return *kind;
            }
            left -= weight;
        }
        TransactionKind::Single
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_mix_picks_every_kind_but_the_one_left_out() {
        let mut random = StdRng::seed_from_u64(7);
        let mix = Mix::default().without(TransactionKind::Prepared);
        let picked: BTreeSet<TransactionKind> = (0..1000).map(|_| mix.pick(&mut random)).collect();
        assert_eq!(picked.len(), 8);
        assert!(!picked.contains(&TransactionKind::Prepared));
    }
}
