//! When something was read.

use std::time::SystemTime;

use tokio::time::Instant;

/// One moment on two clocks: the monotonic one gives ages, the wall clock is shown to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polled {
    /// Monotonic.
    pub at: Instant,
    /// Wall clock.
    pub wall: SystemTime,
}
