//! How workers share a table: its keys fall into [`SHARDS`] shards, and a shard has one worker. So
//! a key has one worker, and only that worker reads, produces and marks its rows.

use std::fmt;

/// Into how many shards keys are divided, so also the most workers that share a table. It cannot be
/// configured: two workers that divide keys differently would both have the same key.
pub const SHARDS: u32 = 64;

/// A set of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardSet(u64);

impl ShardSet {
    /// No shard.
    pub const NONE: Self = Self(0);
    /// Every shard.
    pub const ALL: Self = Self(u64::MAX);

    /// Whether no shard is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether this shard is in it; a number past [`SHARDS`] is in none.
    pub const fn contains(self, shard: u32) -> bool {
        shard < SHARDS && self.0 & (1 << shard) != 0
    }

    /// The set with this shard; a number past [`SHARDS`] changes nothing.
    #[must_use]
    pub const fn with(self, shard: u32) -> Self {
        if shard < SHARDS { Self(self.0 | 1 << shard) } else { self }
    }

    /// Whether every shard of this set is in the other.
    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The shards, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..SHARDS).filter(move |shard| self.contains(*shard))
    }
}

impl FromIterator<u32> for ShardSet {
    fn from_iter<I: IntoIterator<Item = u32>>(shards: I) -> Self {
        shards.into_iter().fold(Self::NONE, Self::with)
    }
}

/// The number of shards.
impl fmt::Display for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {SHARDS}", self.len())
    }
}

/// The most shards of a table that one of so many workers should hold: an equal share, rounded up,
/// so that every shard has a worker.
pub(super) fn share_of(workers: u32) -> u32 {
    SHARDS.div_ceil(workers.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_with_equal_shares_have_every_shard() {
        for workers in 1..=SHARDS * 2 {
            assert!(share_of(workers) * workers >= SHARDS, "{workers}");
            assert!(share_of(workers) >= 1, "{workers}");
        }
        assert_eq!((share_of(0), share_of(1), share_of(3)), (SHARDS, SHARDS, 22));
    }

    #[test]
    fn a_set_is_what_was_put_into_it() {
        let set: ShardSet = [0, 5, 63, 64, 1_000].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 5, 63]);
        assert_eq!((set.len(), set.contains(5), set.contains(64)), (3, true, false));
        assert!(set.is_within(ShardSet::ALL) && !ShardSet::ALL.is_within(set));
        assert!(ShardSet::NONE.is_empty() && ShardSet::NONE.is_within(set));
        assert_eq!(ShardSet::ALL.len(), SHARDS);
    }
}
