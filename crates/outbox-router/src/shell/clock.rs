//! The only source of the core's time.

use std::time::{SystemTime, UNIX_EPOCH};

use relay::{Moment, Now, PgTimestamp};
use tokio::time::Instant;

/// The monotonic clock's origin, from which the core's [`Moment`]s count.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose origin is now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// The monotonic time and the wall-clock time.
    pub fn now(&self) -> Now {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let micros = i64::try_from(unix.as_micros()).unwrap_or(i64::MAX);
        Now { at: Moment::new(self.origin.elapsed()), wall: PgTimestamp::from_unix_micros(micros) }
    }

    /// Converts a moment of the core into tokio's time, for a timer.
    pub fn instant(&self, moment: Moment) -> Instant {
        self.origin + moment.since_origin()
    }
}
