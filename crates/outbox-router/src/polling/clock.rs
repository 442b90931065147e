//! The core's time. It counts while the machine is suspended, too: a lease that has ended meanwhile
//! has ended.

use std::time::{Duration, SystemTime};

use nix::time::{ClockId, clock_gettime};
use relay::{Moment, Now};
use tokio::time::Instant;

use crate::timestamp::timestamp;

/// See the module's header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseClock {
    origin: Duration,
}

impl LeaseClock {
    /// A clock whose origin is now.
    pub(crate) fn start() -> Self {
        Self { origin: since_boot() }
    }

    /// The time since the origin, and the wall-clock time.
    pub(crate) fn now(&self) -> Now {
        let since_origin = since_boot().saturating_sub(self.origin);
        Now { at: Moment::new(since_origin), wall: timestamp(SystemTime::now()) }
    }

    /// When a moment of the core comes, for a timer.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        Instant::now() + moment.since(self.now().at)
    }
}

/// CLOCK_BOOTTIME, which Linux has had since 2.6.39; it cannot fail there.
fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}
