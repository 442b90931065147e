//! Time as Prometheus and `/status.json` have it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds of the epoch; a time before 1970 counts as 1970.
pub(crate) fn epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}
