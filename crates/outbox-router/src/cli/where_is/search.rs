//! Reads partitions until the records with certain ids are found.

use std::{
    collections::{HashMap, HashSet},
    num::NonZeroI32,
    ops::ControlFlow,
    time::Duration,
};

use relay::{Failure, TopicName};
use tokio::time::Instant;

pub(super) use crate::cli::topic_ranges::{Ending, Range, Searched};
use crate::{
    cli::{topic_lookups::TopicLookups, topic_ranges},
    compare::IdHeaders,
    config::Config,
    kafka::{Extent, KafkaSettings, StoredRecord, TopicReader},
    prepare,
};

/// Searches topics, and notes what it has read.
pub(super) struct Search {
    settings: KafkaSettings,
    pub(super) lookups: TopicLookups,
    id_headers: IdHeaders,
    deadline: Instant,
    pub(super) searched: Vec<Searched>,
}

/// A record of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundRecord {
    pub(super) topic: TopicName,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) timestamp_ms: i64,
    pub(super) key: Option<Vec<u8>>,
}

impl Search {
    /// Makes the client that looks topics up.
    ///
    /// # Errors
    /// librdkafka refuses the settings.
    pub(super) fn open(config: &Config, timeout: Duration) -> Result<Self, Failure> {
        let id_headers = config.tables().map(|table| table.headers.id.as_str());
        Ok(Self {
            settings: prepare::kafka_settings(config),
            lookups: TopicLookups::open(config)?,
            id_headers: IdHeaders::new(id_headers),
            deadline: Instant::now() + timeout,
            searched: Vec::new(),
        })
    }

    /// Which offsets the partitions of a topic have, by a time.
    ///
    /// # Errors
    /// No broker answers, or it refuses the topic.
    pub(super) fn extents(
        &self,
        topic: &TopicName,
        partitions: NonZeroI32,
        millis: i64,
    ) -> Result<Vec<Extent>, Failure> {
        TopicReader::open_for_offsets(&self.settings)?.extents(topic, partitions, millis)
    }

    /// Reads until every id was found, or every range was read.
    ///
    /// # Errors
    /// A topic cannot be read.
    pub(super) fn scan(
        &mut self,
        ranges: &[Range],
        wanted: &mut HashSet<Vec<u8>>,
    ) -> Result<HashMap<Vec<u8>, FoundRecord>, Failure> {
        self.scan_until(ranges, wanted, |wanted| wanted.is_empty())
    }

    /// Reads until one of the ids was found.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub(super) fn scan_for_one(
        &mut self,
        ranges: &[Range],
        wanted: &mut HashSet<Vec<u8>>,
    ) -> Result<Option<FoundRecord>, Failure> {
        let count = wanted.len();
        let found = self.scan_until(ranges, wanted, |wanted| wanted.len() < count)?;
        Ok(found.into_values().next())
    }

    fn scan_until(
        &mut self,
        ranges: &[Range],
        wanted: &mut HashSet<Vec<u8>>,
        is_enough: impl Fn(&HashSet<Vec<u8>>) -> bool,
    ) -> Result<HashMap<Vec<u8>, FoundRecord>, Failure> {
        let mut found = HashMap::new();
        if wanted.is_empty() {
            return Ok(found);
        }
        let id_headers = &self.id_headers;
        let take = |topic: &TopicName, record: StoredRecord| {
            let id = id_headers.id_of(&record.headers).and_then(|id| wanted.take(id));
            let Some(id) = id else { return ControlFlow::Continue(()) };
            found.insert(id, FoundRecord::of(topic.clone(), record));
            if is_enough(wanted) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let searched = topic_ranges::read(&self.settings, ranges, Some(self.deadline), take)?;
        self.searched.extend(searched);
        Ok(found)
    }
}

impl FoundRecord {
    fn of(topic: TopicName, record: StoredRecord) -> Self {
        Self {
            topic,
            partition: record.partition.partition,
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key,
        }
    }
}
