//! A small generator (splitmix64) whose sequence belongs to this crate, so that a seed means the
//! same for ever.

/// A stream of numbers from a seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of `seed`. Streams of neighbouring seeds have nothing in common.
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

    /// A place in something of this length.
    pub fn index(&mut self, length: usize) -> usize {
        let length = u64::try_from(length).expect("a length fits");
        usize::try_from(self.below(length)).expect("less than a length")
    }

    /// Once in so many times.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}
