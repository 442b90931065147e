//! The partition of a key, implemented a second time and as Java does it, so that a mistake in the
//! product's implementation is seen.

/// `Utils.toPositive(Utils.murmur2(key)) % partitions`.
pub fn of_key(key: &[u8], partitions: i32) -> i32 {
    (murmur2(key) & 0x7fff_ffff) % partitions
}

fn murmur2(data: &[u8]) -> i32 {
    const M: i32 = 0x5bd1_e995;
    let length = i32::try_from(data.len()).expect("a short key");
    let mut h = i32::from_ne_bytes(0x9747_b28c_u32.to_ne_bytes()) ^ length;
    let mut rest = data;
    while let [a, b, c, d, more @ ..] = rest {
        let mut k = i32::from_le_bytes([*a, *b, *c, *d]).wrapping_mul(M);
        k ^= shift(k, 24);
        k = k.wrapping_mul(M);
        h = h.wrapping_mul(M) ^ k;
        rest = more;
    }
    for (index, byte) in rest.iter().enumerate().rev() {
        h ^= i32::from(*byte) << (8 * index);
        if index == 0 {
            h = h.wrapping_mul(M);
        }
    }
    h ^= shift(h, 13);
    h = h.wrapping_mul(M);
    h ^ shift(h, 15)
}

/// Java's `>>>`.
fn shift(value: i32, bits: u32) -> i32 {
    value.cast_unsigned().wrapping_shr(bits).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur2_returns_the_values_of_apache_kafkas_test() {
        // UtilsTest.testMurmur2 of Apache Kafka.
        assert_eq!(murmur2(b"21"), -973_932_308);
        assert_eq!(murmur2(b"foobar"), -790_332_482);
        assert_eq!(murmur2(b"a-little-bit-long-string"), -985_981_536);
        assert_eq!(murmur2(b"abc"), 479_470_107);
    }
}
