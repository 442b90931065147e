//! What one answer is made from: the reports and the memory at one moment.

use std::time::SystemTime;

use tokio::{sync::watch, time::Instant};

use super::{AdminSettings, Sources, facts::Facts, memory::Memory, verdict};
use crate::{
    kafka::BrokerStatistics,
    polling::{report::WorkerReport, survey::SurveyReport},
    retention::RetentionReport,
    status::Verdict,
};

/// What one answer is made from.
pub(super) struct View<'a> {
    pub(super) settings: &'a AdminSettings,
    pub(super) worker: WorkerReport,
    pub(super) survey: SurveyReport,
    pub(super) retention: RetentionReport,
    /// What librdkafka told of the brokers last; `None` where `kafka.statistics` is off.
    pub(super) brokers: Option<BrokerStatistics>,
    pub(super) memory: Memory,
    /// When the request came.
    pub(super) now: Instant,
}

impl<'a> View<'a> {
    /// Copies what the tasks have published. The guards of the watch channels are dropped at once:
    /// writers must not wait for a reader.
    pub(super) fn of(
        settings: &'a AdminSettings,
        sources: &Sources,
        memory: &watch::Receiver<Memory>,
    ) -> Self {
        Self {
            settings,
            worker: sources.worker.borrow().clone(),
            survey: sources.surveyed.borrow().clone(),
            retention: sources.retention.borrow().clone(),
            brokers: sources.brokers.as_ref().map(|brokers| brokers.borrow().clone()),
            memory: memory.borrow().clone(),
            now: Instant::now(),
        }
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        Facts::of(&self.worker, &self.survey, &self.memory, self.now)
    }

    /// The verdict on these facts, and since when it holds.
    pub(super) fn verdict(&self, facts: &Facts<'_>) -> (Verdict, SystemTime) {
        let verdict = verdict::judge(facts);
        let since = self.memory.timeline.since(&verdict).unwrap_or_else(SystemTime::now);
        (verdict, since)
    }
}
