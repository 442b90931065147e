//! A small random number generator (splitmix64). It is part of this crate, so that a seed means the
//! same with every version of every dependency.

/// A stream of numbers from a seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of `seed`. The streams of neighbouring seeds are unrelated.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// One of `0..limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next_number() % limit
    }

    /// An index into something of this length.
    pub fn index(&mut self, length: usize) -> usize {
        let length = u64::try_from(length).expect("a length fits");
        usize::try_from(self.below(length)).expect("less than a length")
    }

    /// True once in so many times, on average.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}
