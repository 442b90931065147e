//! How WAL is read while catching up: in gulps.
//!
//! A walsender sends every message by itself and wakes whoever waits for it; on single-row transactions that is more
//! than half of its work, and as much of ours. So nobody waits: the thread really sleeps while the kernel's buffer fills,
//! for a few milliseconds in which nothing could be late, and what has gathered is handed on in one go. That also makes
//! the batches for Kafka: all records of a gulp reach the producer together, without any linger.
//!
//! How long the socket can be left alone is the transport's to say ([`crate::postgres::ReplicationStream::rest`]). Where it
//! is less than a gulp, the socket is emptied several times before anything is handed on.

use std::time::Duration;

use relay::Pace;
use tokio::time::Instant;

use super::Shell;
use crate::postgres::Fill;

/// How long a gulp gathers. The gain grows with it until the walsender does nothing but decode; `docs/performance.md` has
/// the figures.
const GULP: Duration = Duration::from_millis(4);

/// Where the reading stands.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gulp {
    /// Following: what is read is handed on at once.
    #[default]
    None,
    /// The next one begins when everything was handed on and nothing else is to do.
    Due,
    /// Bytes gather, and no frame is handed on.
    Open { until: Instant },
}

impl Gulp {
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }

    pub(super) fn open(&mut self, now: Instant) {
        *self = Self::Open { until: now + GULP };
    }

    /// Bytes came.
    pub(super) fn took(&mut self, now: Instant, pace: Pace) {
        *self = match (*self, pace) {
            (Self::Open { until }, _) if now < until => return,
            (_, Pace::InGulps) => Self::Due,
            (_, Pace::AtOnce) => Self::None,
        };
    }
}

impl Shell {
    /// Rests and reads once, if a gulp is open. `None`: wait as ever.
    pub(super) fn gather(&mut self) -> Option<Fill> {
        let Gulp::Open { until } = self.gulp else { return None };
        let Some(stream) = &mut self.stream else {
            self.gulp = Gulp::None;
            return None;
        };
        let left = until.saturating_duration_since(Instant::now());
        std::thread::sleep(stream.rest().min(left));
        match stream.fill_now() {
            0 => {
                // The server has no more, or there is no room for it: what there is must not wait any longer.
                self.gulp = Gulp::None;
                None
            }
            count => Some(Fill::Bytes(count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn following_there_are_none() {
        let mut gulp = Gulp::default();
        gulp.took(Instant::now(), Pace::AtOnce);
        assert_eq!(gulp, Gulp::None);
    }

    #[test]
    fn an_open_one_gathers_until_its_time_is_up_whatever_the_pace() {
        let (mut gulp, now) = (Gulp::default(), Instant::now());
        gulp.took(now, Pace::InGulps);
        assert_eq!(gulp, Gulp::Due);
        gulp.open(now);
        gulp.took(now + GULP / 2, Pace::AtOnce);
        assert!(gulp.is_open(), "what has gathered says nothing yet");
        gulp.took(now + GULP, Pace::InGulps);
        assert_eq!(gulp, Gulp::Due, "handed on, and then the next");
    }

    #[test]
    fn the_last_one_is_handed_on_and_followed_by_none() {
        let (mut gulp, now) = (Gulp::default(), Instant::now());
        gulp.open(now);
        gulp.took(now + GULP, Pace::AtOnce);
        assert_eq!(gulp, Gulp::None);
    }
}
