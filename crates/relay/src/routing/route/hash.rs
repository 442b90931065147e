//! The hash for the look-up of routing value → topic, which every event needs. The values are short
//! and the table is small and bounded, so the hash need not withstand crafted keys as the standard
//! library's does, which takes as many instructions as decoding the row. It is seeded all the same:
//! which values collide differs from process to process.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The fraction of the golden ratio: odd, and its bits have no pattern.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The state in which each hash begins, random per value of this type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seed(u64);

impl Default for Seed {
    fn default() -> Self {
        Self(RandomState::new().hash_one(MULTIPLIER))
    }
}

impl BuildHasher for Seed {
    type Hasher = Folded;

    #[inline]
    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

/// Multiplies eight bytes at a time and folds the 128-bit product, so that every bit of the hash
/// depends on every byte.
#[derive(Debug)]
pub(super) struct Folded(u64);

impl Folded {
    #[inline]
    fn fold(&mut self, word: u64) {
        let (low, high) = (self.0 ^ word).carrying_mul(MULTIPLIER, 0);
        self.0 = low ^ high;
    }
}

impl Hasher for Folded {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        // The length is hashed as well, which distinguishes an empty tail from zeros.
        if !tail.is_empty() {
            self.fold(tail.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.fold(u64::try_from(number).unwrap_or(u64::MAX));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_that_differ_little_spread_over_all_bits() {
        let seed = Seed::default();
        let names = (0..10_000).map(|number| format!("aggregate-{number}"));
        let hashes: Vec<u64> = names.map(|name| seed.hash_one(name.as_bytes())).collect();
        // A table takes its place from the lowest bits and tells neighbours apart by the highest
        // seven.
        let places: HashSet<u64> = hashes.iter().map(|hash| hash & 0x3fff).collect();
        let tags: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
        // 10,000 balls into 16,384 bins fill about 7,480 of them.
        assert!(places.len() > 7_000, "{}", places.len());
        assert_eq!(tags.len(), 128);
    }

    #[test]
    fn every_byte_and_the_length_count() {
        let seed = Seed::default();
        let texts: [&[u8]; 8] =
            [b"", b"\0", b"\0\0", b"order", b"ordes", b"orderord", b"orderord\0", b"orderord\0\0"];
        let hashes: HashSet<u64> = texts.iter().map(|text| seed.hash_one(text)).collect();
        assert_eq!(hashes.len(), texts.len());
    }

    #[test]
    fn the_seed_counts() {
        let differs = |text: &[u8]| Seed(1).hash_one(text) != Seed(2).hash_one(text);
        assert!(differs(b"") && differs(b"order"));
    }
}
