//! From librdkafka's documents to what is published.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use tokio::sync::watch;

use super::{document, figures::BrokerFigures};

/// Brokers that are shown one by one. A cluster has rarely more than some dozens, and each costs
/// about twenty series.
pub const BROKERS_SHOWN: usize = 100;

/// What is known of the brokers.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokerStatistics {
    /// `kafka.statistics`: the time between two documents.
    pub interval: Duration,
    /// When the last document was read; `None` before this producer's first.
    pub received: Option<SystemTime>,
    /// The brokers by their node id, of which those with the lowest ids.
    pub brokers: BTreeMap<i32, BrokerFigures>,
    /// How many brokers more there are.
    pub others: usize,
}

impl BrokerStatistics {
    const fn before_the_first(interval: Duration) -> Self {
        Self { interval, received: None, brokers: BTreeMap::new(), others: 0 }
    }
}

/// That statistics are wanted, and where they are published.
#[derive(Debug, Clone)]
pub struct StatisticsFeed {
    interval: Duration,
    published: watch::Sender<BrokerStatistics>,
}

impl StatisticsFeed {
    /// A feed of one document per `interval`, and where its content is read.
    pub fn every(interval: Duration) -> (Self, watch::Receiver<BrokerStatistics>) {
        let (published, read) = watch::channel(BrokerStatistics::before_the_first(interval));
        (Self { interval, published }, read)
    }

    /// The value of `statistics.interval.ms`.
    pub(in crate::kafka) fn interval_ms(&self) -> String {
        self.interval.as_millis().to_string()
    }

    /// Forgets what a former producer has told.
    pub(in crate::kafka) fn begin(&self) {
        self.published.send_replace(BrokerStatistics::before_the_first(self.interval));
    }

    /// Publishes what a document says. One that cannot be read changes nothing, so that the figures
    /// are seen to grow old.
    #[cold]
    pub(in crate::kafka) fn take(&self, document: &[u8]) {
        let mut brokers = match document::brokers(document) {
            Ok(brokers) => brokers,
            Err(error) => {
                tracing::warn!(%error, "librdkafka's statistics cannot be read");
                return;
            }
        };
        let others = brokers.len().saturating_sub(BROKERS_SHOWN);
        if let Some(first_left_out) = brokers.keys().nth(BROKERS_SHOWN).copied() {
            drop(brokers.split_off(&first_left_out));
        }
        self.published.send_modify(|published| {
            // librdkafka tells the sum of one interval; a counter needs that of all.
            for (node, broker) in &mut brokers {
                let before = published.brokers.get(node).map(|before| before.throttled);
                broker.throttled = broker.throttled.saturating_add(before.unwrap_or_default());
            }
            published.received = Some(SystemTime::now());
            published.brokers = brokers;
            published.others = others;
        });
    }
}
