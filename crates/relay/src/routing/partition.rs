//! The partition of a key: murmur2 as Kafka's Java client computes it
//! (`org.apache.kafka.common.utils.Utils.murmur2` and `BuiltInPartitioner.partitionForKey`), so
//! that records of one key go to the partition that Java producers use, and that Debezium used
//! before the router.

use std::num::NonZeroI32;

const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;
const R: u32 = 24;

/// The partition of `key` in a topic of `partitions` partitions. An empty key is hashed like any
/// other.
pub fn partition_for_key(key: &[u8], partitions: NonZeroI32) -> i32 {
    hash_of_key(key) % partitions.get()
}

/// The hash of a key, never negative: modulo the topic's partition count it is the partition.
#[inline]
pub fn hash_of_key(key: &[u8]) -> i32 {
    // The sign bit is masked off, not negated: that is what the Java client does.
    let positive = murmur2(key) & 0x7fff_ffff;
    i32::try_from(positive).unwrap_or(0)
}

fn murmur2(data: &[u8]) -> u32 {
    // Java's length is an `int`; no key is that long.
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let (words, tail) = data.as_chunks::<4>();
    let mut h = SEED ^ length;
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (position, byte) in tail.iter().enumerate() {
            h ^= u32::from(*byte) << (8 * position);
        }
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^ (h >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of `UtilsTest.testMurmur2` of Apache Kafka, and of librdkafka's
    /// `unittest_murmur2`.
    #[test]
    fn agrees_with_the_java_client() {
        let vectors: [(&str, i32); 6] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (key, expected) in vectors {
            assert_eq!(
                murmur2(key.as_bytes()),
                u32::from_ne_bytes(expected.to_ne_bytes()),
                "{key}"
            );
        }
    }

    #[test]
    fn every_key_has_a_partition_even_the_empty_one() {
        let three = NonZeroI32::new(3).unwrap();
        for length in 0..64 {
            let partition = partition_for_key(&vec![0xff; length], three);
            assert!((0..3).contains(&partition), "{length}");
        }
    }
}
