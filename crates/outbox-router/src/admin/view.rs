//! What one answer is made from: the reports of streaming task and monitor at one moment.

use std::time::Duration;

use tokio::time::Instant;

use super::{AdminSettings, Sources};
use crate::{
    monitor::{Gap, Lag, MonitorReport, RelayReport},
    retention::RetentionReport,
};

/// Age at which the streaming task's report counts as stale. The task publishes a report every half
/// second; calls into librdkafka that block may delay it by seconds.
pub const RELAY_STALE_AFTER: Duration = Duration::from_secs(30);

/// Age at which the monitor's report counts as stale. A round takes its interval, which is 10 s at
/// most, and then at most four answers of 5 s each.
pub const MONITOR_STALE_AFTER: Duration = Duration::from_secs(120);

/// What one answer is made from.
#[derive(Debug)]
pub struct View<'a> {
    /// What does not change.
    pub settings: &'a AdminSettings,
    /// What the streaming task published last.
    pub relay: RelayReport,
    /// What the monitor published last.
    pub monitor: MonitorReport,
    /// What retention published last.
    pub retention: RetentionReport,
    /// When the request came.
    pub now: Instant,
}

impl<'a> View<'a> {
    /// Copies what the tasks have published. The guards of the watch channels are dropped at once:
    /// writers must not wait for a reader.
    pub fn of(settings: &'a AdminSettings, sources: &Sources) -> Self {
        Self {
            settings,
            relay: sources.relay.borrow().clone(),
            monitor: sources.monitor.borrow().clone(),
            retention: sources.retention.borrow().clone(),
            now: Instant::now(),
        }
    }

    /// Whether the streaming task has published nothing for too long.
    pub(super) fn is_relay_stale(&self) -> bool {
        self.now.duration_since(self.relay.published_at) > RELAY_STALE_AFTER
    }

    /// Whether the monitor has published nothing for too long.
    pub(super) fn is_monitor_stale(&self) -> bool {
        self.now.duration_since(self.monitor.ticked_at) > MONITOR_STALE_AFTER
    }

    /// The gap that waits for a person's acceptance, if there is one.
    pub(super) fn gap(&self) -> Option<&Gap> {
        let witness = &self.relay.snapshot.witness;
        // A gap in the witness comes first: its name is the one by which a person accepts it.
        witness.gaps.first().or(self.monitor.gap.as_ref()).or(witness.other_server_gap.as_ref())
    }

    /// The split of what the slot is behind; `None` when the slot could not be read or another
    /// router holds it.
    pub fn lag(&self) -> Option<Lag> {
        Lag::split(&self.relay.snapshot, self.monitor.slot.health()?)
    }
}
