//! How fast records may be sent.

use std::{num::NonZeroU32, time::Duration};

use tokio::time::Instant;

/// What was not sent while Kafka did not answer is not caught up with at once: only this much.
const BURST: Duration = Duration::from_millis(50);

/// So many records a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Between two records; `None`: there is no limit.
    between: Option<Duration>,
    next: Instant,
}

impl Pace {
    pub(super) fn new(rate: Option<NonZeroU32>, now: Instant) -> Self {
        Self { between: rate.map(|rate| Duration::from_secs(1) / rate.get()), next: now }
    }

    /// When the next record may be sent; `None`: now.
    pub(super) fn wait(&self) -> Option<Instant> {
        self.between?;
        (self.next > Instant::now()).then_some(self.next)
    }

    /// A record was sent.
    pub(super) fn sent(&mut self) {
        if let Some(between) = self.between {
            let now = Instant::now();
            self.next = self.next.max(now.checked_sub(BURST).unwrap_or(now)) + between;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn records_are_sent_at_the_rate_and_a_pause_is_not_made_up_for() {
        let begun = Instant::now();
        let mut pace = Pace::new(NonZeroU32::new(100), begun);
        let mut send = async |records: u32| {
            for _ in 0..records {
                if let Some(at) = pace.wait() {
                    tokio::time::sleep_until(at).await;
                }
                pace.sent();
            }
        };
        send(301).await;
        let took = begun.elapsed();
        assert!((Duration::from_secs(2)..Duration::from_millis(3_100)).contains(&took), "{took:?}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let again = Instant::now();
        send(101).await;
        let took = again.elapsed();
        assert!(took > Duration::from_millis(900), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_rate_nothing_waits() {
        let mut pace = Pace::new(None, Instant::now());
        pace.sent();
        assert_eq!(pace.wait(), None);
    }
}
