//! What one answer is made from: both sides of the story at one moment.

use std::time::Duration;

use tokio::time::Instant;

use super::Settings;
use crate::monitor::{Gap, Lag, MonitorReport, RelayReport};

/// The relay's task publishes at least every few seconds; blocking calls into librdkafka may hold
/// it for a few more.
pub const RELAY_STALE_AFTER: Duration = Duration::from_secs(30);

/// A round of the monitor is at most four answers of 5 s each after its interval, which may be a
/// minute.
pub const MONITOR_STALE_AFTER: Duration = Duration::from_secs(120);

/// What one answer is made from.
#[derive(Debug)]
pub struct View<'a> {
    /// What does not change.
    pub settings: &'a Settings,
    /// The relay's side.
    pub relay: RelayReport,
    /// The monitor's side.
    pub monitor: MonitorReport,
    /// When it was asked.
    pub now: Instant,
}

impl View<'_> {
    /// Which of our own tasks no longer comes round.
    pub(super) fn stale_task(&self) -> Option<&'static str> {
        if self.now.duration_since(self.relay.published_at) > RELAY_STALE_AFTER {
            Some("relay")
        } else if self.now.duration_since(self.monitor.ticked_at) > MONITOR_STALE_AFTER {
            Some("monitor")
        } else {
            None
        }
    }

    /// What waits for a person's acceptance.
    pub(super) fn gap(&self) -> Option<&Gap> {
        let witness = &self.relay.snapshot.witness;
        // What is written down first: it has the name by which a person accepts it.
        witness.gaps.first().or(self.monitor.gap.as_ref()).or(witness.elsewhere.as_ref())
    }

    /// The split of what the slot is behind; `None` when the slot is not seen or another router
    /// holds it.
    pub(super) fn lag(&self) -> Option<Lag> {
        Lag::split(&self.relay.snapshot, self.monitor.slot.seen()?)
    }
}
