//! The one place where the core's time comes from.

use std::time::{SystemTime, UNIX_EPOCH};

use relay::{Moment, Now, PgTimestamp};
use tokio::time::Instant;

/// A monotonic origin.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Starts counting now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Both clocks.
    pub fn now(&self) -> Now {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let micros = i64::try_from(unix.as_micros()).unwrap_or(i64::MAX);
        Now { at: Moment::new(self.origin.elapsed()), wall: PgTimestamp::from_unix_micros(micros) }
    }

    /// When a moment of the core's is, for a timer.
    pub fn instant(&self, moment: Moment) -> Instant {
        self.origin + moment.since_origin()
    }
}
