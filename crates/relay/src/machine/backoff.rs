//! How long to wait after a failure: exponential back-off with jitter, so that many routers do not
//! reconnect at the same moment.

use std::time::Duration;

/// A session or a producer that lasted this long resets the back-off: it was no failed attempt.
pub(super) const STEADY: Duration = Duration::from_secs(10);

/// The first wait. Short: most faults are a restart or a failover that is already over.
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait. A person who watches does not wait longer than this for a recovery.
const LONGEST: Duration = Duration::from_secs(5);

/// Counts failures in a row and turns them into waits.
#[derive(Debug)]
pub(crate) struct Backoff {
    failures: u32,
    random: Xorshift,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Self {
        Self { failures: 0, random: Xorshift(seed | 1) }
    }

    /// The wait before the next attempt: doubled each time, then spread over its upper half.
    pub(crate) fn next(&mut self) -> Duration {
        let wait = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.spread(wait)
    }

    /// `wait`, minus up to half of it at random.
    pub(crate) fn spread(&mut self, wait: Duration) -> Duration {
        let share = u32::try_from(self.random.next() % 512).unwrap_or(0);
        wait - wait * share / 1024
    }

    /// `least`, plus up to half of it at random: for waits that must not be cut short.
    pub(crate) fn at_least(&mut self, least: Duration) -> Duration {
        let share = u32::try_from(self.random.next() % 512).unwrap_or(0);
        least + least * share / 1024
    }

    /// Any number, for other waits.
    pub(crate) fn random(&mut self) -> u64 {
        self.random.next()
    }

    /// The next wait is the first again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Marsaglia's xorshift64: enough to spread reconnections, and the same for the same seed.
#[derive(Debug)]
struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_start_over() {
        let mut backoff = Backoff::new(42);
        let waits: Vec<Duration> = (0..12).map(|_| backoff.next()).collect();
        assert!(waits[0] <= FIRST && waits[0] >= FIRST / 2);
        assert!(waits[3] > waits[0]);
        assert!(waits.iter().all(|wait| *wait <= LONGEST));
        assert!(waits[11] >= LONGEST / 2);
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }

    #[test]
    fn a_grace_period_is_never_cut_short() {
        let mut backoff = Backoff::new(7);
        for _ in 0..100 {
            let wait = backoff.at_least(Duration::from_secs(10));
            assert!(wait >= Duration::from_secs(10) && wait < Duration::from_secs(15));
        }
    }
}
