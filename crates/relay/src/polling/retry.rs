//! When a row that could not be delivered is tried again: the section `[retry]`.

use std::time::Duration;

/// See the module's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// After so many attempts a row is abandoned, where `on_error` has it so.
    pub max_attempts: u32,
    /// The wait after the first attempt.
    pub base_delay: Duration,
    /// By how much each further wait is longer.
    pub multiplier: u32,
    /// The longest wait.
    pub max_backoff: Duration,
    /// By how much of itself a wait may be longer, at random, in hundredths.
    pub jitter: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            base_delay: Duration::from_secs(1),
            multiplier: 2,
            max_backoff: Duration::from_secs(300),
            jitter: 20,
        }
    }
}

impl RetryPolicy {
    /// The wait after this number of attempts. `random` is any number.
    pub(super) fn wait(&self, attempts: u32, random: u64) -> Duration {
        let factor = self.multiplier.max(1).saturating_pow(attempts.saturating_sub(1));
        let wait = self.base_delay.saturating_mul(factor).min(self.max_backoff);
        // Ten thousandths, so that a jitter of some hundredths is spread finely.
        let share = random % (u64::from(self.jitter) * 100 + 1);
        let longer = wait.as_micros().saturating_mul(u128::from(share)) / 10_000;
        wait.saturating_add(Duration::from_micros(u64::try_from(longer).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest_and_are_spread_upwards() {
        let policy = RetryPolicy::default();
        let waits = [1, 2, 3, 9, 10, 4_000].map(|attempts| policy.wait(attempts, 0).as_secs());
        assert_eq!(waits, [1, 2, 4, 256, 300, 300]);
        for random in 0..10_000 {
            let wait = policy.wait(1, random);
            assert!(wait >= Duration::from_secs(1) && wait <= Duration::from_millis(1_200));
        }
        assert_eq!(policy.wait(1, 2_000), Duration::from_millis(1_200));
        let steady = RetryPolicy { multiplier: 1, jitter: 0, ..policy };
        assert_eq!(steady.wait(30, 77), Duration::from_secs(1));
    }
}
