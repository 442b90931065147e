//! Time as an input: the core never asks for it.

use std::{ops::Add, time::Duration};

use pgoutput::PgTimestamp;

/// A moment on a monotonic clock, counted from an origin that the caller chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(Duration);

impl Moment {
    /// `since_origin` after the origin.
    pub const fn new(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// How long after the origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// How long after `earlier`; zero if it is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }
}

/// What the clocks show when an input arrives.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For every deadline.
    pub at: Moment,
    /// For what leaves the process: the clock field of status updates, and latencies against commit
    /// times.
    pub wall: PgTimestamp,
}
