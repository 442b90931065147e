//! The only source of the core's time.

use std::time::SystemTime;

use relay::{Moment, Now};
use tokio::time::Instant;

use crate::timestamp::timestamp;

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
        let wall = timestamp(SystemTime::now());
        Now { at: Moment::new(self.origin.elapsed()), wall }
    }

    /// Converts a moment of the core into tokio's time, for a timer.
    pub fn instant(&self, moment: Moment) -> Instant {
        self.origin + moment.since_origin()
    }
}
