//! Routing value → topic, so that a topic name is rendered and checked once. Every event needs this
//! one look-up.
//!
//! It is a `HashTable` of `hashbrown`, the implementation of the standard library's map, but with a
//! comparison of its own. The standard map compares byte slices by `memcmp`; glibc's version for
//! AVX-512 waits some 90 ns for a masked load of the few bytes that were just read, an eighth of
//! the streaming task's time in a backlog.
//!
//! The hash is that of `foldhash`. The standard library's withstands keys that are crafted to
//! collide, for 168 more instructions per event, a seventh of what an event costs; a table of a
//! bounded number of short values does not need that. The hash is seeded all the same: which values
//! collide differs from process to process.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::routing::record::TopicId;

/// How many routing values are cached per table. The topic of any further value is rendered each
/// time: an application that puts an id into the aggregate type must not use memory without limit.
pub(super) const REMEMBERED_MAX: usize = 16_384;

#[derive(Debug, Default)]
pub(super) struct TopicCache {
    topics: HashTable<(Box<[u8]>, TopicId)>,
    hasher: RandomState,
}

impl TopicCache {
    #[inline]
    pub(super) fn get(&self, routing: &[u8]) -> Option<TopicId> {
        let is_it = |(value, _): &(Box<[u8]>, TopicId)| are_equal(value, routing);
        self.topics.find(self.hasher.hash_one(routing), is_it).map(|(_, topic)| *topic)
    }

    /// Adds a routing value that is not in the cache; does nothing when the cache is full.
    pub(super) fn insert(&mut self, routing: &[u8], topic: TopicId) {
        if self.topics.len() < REMEMBERED_MAX {
            let hasher = &self.hasher;
            self.topics.insert_unique(
                hasher.hash_one(routing),
                (routing.into(), topic),
                |(value, _)| hasher.hash_one(value),
            );
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.topics.len()
    }
}

/// Compares eight bytes at a time, inlined, without a call of `memcmp`. The last eight or four may
/// overlap with those before them, so that no value of four bytes or more is compared byte by byte.
#[inline]
fn are_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    if let (Some(one_end), Some(other_end)) = (one.last_chunk::<8>(), other.last_chunk::<8>()) {
        let mut words = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
        return u64::from_ne_bytes(*one_end) == u64::from_ne_bytes(*other_end)
            && words.all(|(one, other)| u64::from_ne_bytes(*one) == u64::from_ne_bytes(*other));
    }
    let ends = |value: &[u8]| -> Option<u64> {
        let (start, end) = (value.first_chunk::<4>()?, value.last_chunk::<4>()?);
        Some(u64::from(u32::from_ne_bytes(*start)) << 32 | u64::from(u32::from_ne_bytes(*end)))
    };
    match (ends(one), ends(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.iter().zip(other).all(|(one, other)| one == other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_values_are_equal(
            one in prop::collection::vec(0_u8..2, 0..20),
            other in prop::collection::vec(0_u8..2, 0..20),
        ) {
            prop_assert_eq!(are_equal(&one, &other), one == other);
            prop_assert!(are_equal(&one, &one.clone()));
        }
    }

    #[test]
    fn one_byte_anywhere_makes_a_difference() {
        let text = b"a routing value of some length";
        for length in 0..=text.len() {
            let text = &text[..length];
            for at in 0..length {
                let mut other = text.to_vec();
                other[at] ^= 1;
                assert!(!are_equal(text, &other), "{at} of {length}");
                assert!(!are_equal(text, &text[..at]), "{at} of {length}");
            }
        }
    }

    #[test]
    fn each_value_has_its_own_topic() {
        let mut remembered = TopicCache::default();
        let topic = |number| TopicId::from_index(number).unwrap();
        for number in 0..1_000 {
            remembered.insert(format!("order-{number}").as_bytes(), topic(number));
        }
        for number in 0..1_000 {
            let value = format!("order-{number}");
            assert_eq!(remembered.get(value.as_bytes()), Some(topic(number)));
        }
        assert_eq!(remembered.get(b"order-"), None);
    }
}
