//! Time as an input: the core reads no clock, so that a run can be replayed.

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

/// The time of an input, on both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// The monotonic clock, for every deadline.
    pub at: Moment,
    /// The wall clock, for what is compared with other machines: the clock field of status updates,
    /// and latencies since a commit.
    pub wall: PgTimestamp,
}
