//! What one answer is made from: the reports of relay and monitor at one moment.

use std::time::Duration;

use tokio::time::Instant;

use super::AdminSettings;
use crate::monitor::{Gap, Lag, MonitorReport, RelayReport};

/// Age at which the relay's report counts as stale. The relay's task publishes at least every few
/// seconds; blocking calls into librdkafka may delay it by a few more.
pub const RELAY_STALE_AFTER: Duration = Duration::from_secs(30);

/// Age at which the monitor's report counts as stale. A round takes its interval, which may be a
/// minute, and then at most four answers of 5 s each.
pub const MONITOR_STALE_AFTER: Duration = Duration::from_secs(120);

/// What one answer is made from.
#[derive(Debug)]
pub struct View<'a> {
    /// What does not change.
    pub settings: &'a AdminSettings,
    /// What the relay published last.
    pub relay: RelayReport,
    /// What the monitor published last.
    pub monitor: MonitorReport,
    /// When the request came.
    pub now: Instant,
}

impl View<'_> {
    /// The task that has published nothing for too long, if there is one.
    pub(super) fn stale_task(&self) -> Option<&'static str> {
        if self.now.duration_since(self.relay.published_at) > RELAY_STALE_AFTER {
            Some("relay")
        } else if self.now.duration_since(self.monitor.ticked_at) > MONITOR_STALE_AFTER {
            Some("monitor")
        } else {
            None
        }
    }

    /// The gap that waits for a person's acceptance, if there is one.
    pub(super) fn gap(&self) -> Option<&Gap> {
        let witness = &self.relay.snapshot.witness;
        // A gap in the witness comes first: its name is the one by which a person accepts it.
        witness.gaps.first().or(self.monitor.gap.as_ref()).or(witness.other_server_gap.as_ref())
    }

    /// The split of what the slot is behind; `None` when the slot could not be read or another
    /// router holds it.
    pub(super) fn lag(&self) -> Option<Lag> {
        Lag::split(&self.relay.snapshot, self.monitor.slot.health()?)
    }
}
