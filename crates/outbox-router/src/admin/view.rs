//! What one answer is made from: the reports of streaming task and monitor at one moment.

use tokio::time::Instant;

use super::{AdminSettings, Sources};
use crate::{
    kafka::BrokerStatistics,
    monitor::{Gap, MonitorReport, RelayReport},
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
    /// What librdkafka told of the brokers last; `None` where `kafka.statistics` is off.
    pub brokers: Option<BrokerStatistics>,
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
            observed: sources.observed.borrow().clone(),
            retention: sources.retention.borrow().clone(),
            brokers: sources.brokers.as_ref().map(|brokers| brokers.borrow().clone()),
            now: Instant::now(),
        }
    }

    /// What a verdict is made from.
    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts::of(&self.relay, &self.monitor, self.settings.limits(), self.now)
    }

    /// The verdict on these facts.
    pub(crate) fn verdict(&self, facts: &Facts<'_>) -> Verdict {
        Verdict::of(facts, self.observed.progress.without(self.now))
    }

    /// Whether the streaming task has published nothing for too long.
    pub(super) fn is_relay_stale(&self) -> bool {
        facts::is_relay_stale(&self.relay, self.now)
    }

    /// Whether the monitor has published nothing for too long.
    pub(super) fn is_monitor_stale(&self) -> bool {
        facts::is_monitor_stale(&self.monitor, self.now)
    }

    /// The gap that waits for a person's acceptance, if there is one.
    pub(super) fn gap(&self) -> Option<&Gap> {
        facts::gap(&self.relay.snapshot, &self.monitor)
    }
}
