//! How long a lease lasts, and what has to be over by which part of it.
//!
//! A worker produces in the first half. What it has produced just before the half is over waits
//! for two fifths more, and the tenth that is left is for clocks that jump: then the lease ends,
//! and another worker may have the key.

use std::time::Duration;

/// See the module's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseLength(Duration);

impl LeaseLength {
    /// A lease of this length.
    pub const fn new(whole: Duration) -> Self {
        Self(whole)
    }

    /// From the request that grants it to its end.
    pub const fn whole(self) -> Duration {
        self.0
    }

    /// From one renewal to the next, and how long its answer is waited for. While that is longer
    /// under way than a sixth of a lease, nothing is produced.
    pub fn renewal(self) -> Duration {
        self.0 / 3
    }

    /// From the request to the moment from which on nothing is produced, and no row is locked.
    pub fn producing(self) -> Duration {
        self.0 / 2
    }

    /// How long the producer keeps a record by itself: `message.timeout.ms`.
    pub fn message_timeout(self) -> Duration {
        self.0 * 2 / 5
    }

    /// How long a batch waits for its acknowledgements. The producer gives up each record by
    /// itself, and later ones of its key may leave in the moment before that is noticed: so
    /// everything is given up a little earlier, together.
    pub fn unacknowledged(self) -> Duration {
        self.0 * 7 / 20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_over_a_tenth_before_the_end() {
        let length = LeaseLength::new(Duration::from_secs(60));
        assert!(length.unacknowledged() < length.message_timeout());
        let last = length.producing() + length.message_timeout();
        assert_eq!(last + length.whole() / 10, length.whole());
        assert!(length.renewal() < length.producing());
    }
}
