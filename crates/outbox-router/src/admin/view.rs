//! What one answer is made from: the reports of streaming task and monitor at one moment.

use tokio::time::Instant;

use super::AdminSettings;
use crate::{
    monitor::{Gap, Lag, MonitorReport, RelayReport},
    retention::RetentionReport,
    status::{Facts, Observed, Verdict, facts},
};

/// What one answer is made from.
#[derive(Debug)]
pub struct View<'a> {
    /// What does not change.
    pub settings: &'a AdminSettings,
    /// What the streaming task published last.
    pub relay: RelayReport,
    /// What the monitor published last.
    pub monitor: MonitorReport,
    /// What the observer remembers.
    pub observed: Observed,
    /// What retention published last.
    pub retention: RetentionReport,
    /// When the request came.
    pub now: Instant,
}

impl View<'_> {
    /// What a verdict is made from.
    pub(super) fn facts(&self) -> Facts<'_> {
        Facts::of(&self.relay, &self.monitor, self.settings.limits())
    }

    /// The verdict of this moment.
    pub(super) fn verdict(&self) -> Verdict {
        Verdict::of(&self.facts(), self.observed.progress.without(self.now))
    }

    /// The task that has published nothing for too long, if there is one.
    pub(super) fn stale_task(&self) -> Option<&'static str> {
        facts::stale_task(&self.relay, &self.monitor, self.now)
    }

    /// The gap that waits for a person's acceptance, if there is one.
    pub(super) fn gap(&self) -> Option<&Gap> {
        facts::gap(&self.relay.snapshot, &self.monitor)
    }

    /// The split of what the slot is behind; `None` when the slot could not be read or another
    /// router holds it.
    pub(super) fn lag(&self) -> Option<Lag> {
        Lag::split(&self.relay.snapshot, self.monitor.slot.health()?)
    }
}
