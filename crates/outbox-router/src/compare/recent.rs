//! A map that remembers the latest entries and forgets old ones, so that it never grows past a
//! limit.

use std::{collections::HashMap, hash::BuildHasherDefault, hash::Hasher};

/// The keys are hashes: they are used unchanged.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type Entries<V> = HashMap<u64, V, BuildHasherDefault<Identity>>;

/// At least the latest `capacity` entries: at most two maps of `capacity` entries.
#[derive(Debug)]
pub(super) struct Recent<V> {
    capacity: usize,
    young: Entries<V>,
    old: Entries<V>,
}

impl<V: Copy> Recent<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, young: Entries::default(), old: Entries::default() }
    }

    pub(super) fn get(&self, key: u64) -> Option<V> {
        self.young.get(&key).or_else(|| self.old.get(&key)).copied()
    }

    pub(super) fn insert(&mut self, key: u64, value: V) {
        if self.young.len() >= self.capacity {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_entries_are_remembered_and_the_number_is_bounded() {
        let mut recent = Recent::new(100);
        for key in 0..1_000_u64 {
            recent.insert(key, key);
            assert!(recent.young.len() + recent.old.len() <= 200);
            for latest in key.saturating_sub(99)..=key {
                assert_eq!(recent.get(latest), Some(latest));
            }
        }
        assert_eq!(recent.get(0), None);
    }
}
