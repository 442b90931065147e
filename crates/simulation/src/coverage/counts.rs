//! Counts of several runs together.

use std::collections::BTreeMap;

/// Adds the counts of another run.
pub(super) fn add<K: Ord + Copy>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        *to.entry(*key).or_default() += count;
    }
}
