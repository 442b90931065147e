//! Reads partitions until certain records are found.

use std::{collections::HashMap, num::NonZeroI32, ops::ControlFlow, time::Duration};

use relay::{Failure, TopicName};
use tokio::time::Instant;

use super::wanted::{Missing, Seen, Wanted};
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

/// What was found in what was read.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub(super) found: HashMap<Wanted, FoundRecord>,
    /// The last record with an id that was looked for, and with another key.
    pub(super) of_another_key: HashMap<Vec<u8>, FoundRecord>,
    /// The last record with an id and a key that were looked for, and with another value; and how
    /// many such records there are.
    pub(super) of_other_content: HashMap<Vec<u8>, (FoundRecord, u64)>,
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

    /// Reads until every record was found, or every range was read.
    ///
    /// # Errors
    /// A topic cannot be read.
    pub(super) fn scan(
        &mut self,
        ranges: &[Range],
        wanted: impl IntoIterator<Item = Wanted>,
    ) -> Result<Scanned, Failure> {
        self.scan_until(ranges, wanted, Missing::is_empty)
    }

    /// Reads until one of the records was found.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub(super) fn scan_for_one(
        &mut self,
        ranges: &[Range],
        wanted: impl IntoIterator<Item = Wanted>,
    ) -> Result<Scanned, Failure> {
        self.scan_until(ranges, wanted, |_| true)
    }

    /// `is_enough` is asked after each record that was found.
    fn scan_until(
        &mut self,
        ranges: &[Range],
        wanted: impl IntoIterator<Item = Wanted>,
        is_enough: impl Fn(&Missing) -> bool,
    ) -> Result<Scanned, Failure> {
        let mut missing: Missing = wanted.into_iter().collect();
        let mut scanned = Scanned::default();
        if missing.is_empty() {
            return Ok(scanned);
        }
        let id_headers = &self.id_headers;
        let take = |topic: &TopicName, record: StoredRecord| {
            let Some(id) = id_headers.id_of(&record.headers) else {
                return ControlFlow::Continue(());
            };
            match missing.see(id, record.key.as_deref(), record.value.as_deref()) {
                Seen::Unwanted => return ControlFlow::Continue(()),
                Seen::OfAnotherKey => {
                    let id = id.to_vec();
                    scanned.of_another_key.insert(id, FoundRecord::of(topic.clone(), record));
                    return ControlFlow::Continue(());
                }
                Seen::OfOtherContent => {
                    let id = id.to_vec();
                    let known = scanned.of_other_content.remove(&id).map_or(0, |(_, count)| count);
                    let record = FoundRecord::of(topic.clone(), record);
                    scanned.of_other_content.insert(id, (record, known + 1));
                    return ControlFlow::Continue(());
                }
                Seen::Found(wanted) => {
                    scanned.found.insert(wanted, FoundRecord::of(topic.clone(), record));
                }
            }
            if is_enough(&missing) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let searched = topic_ranges::read(&self.settings, ranges, Some(self.deadline), take)?;
        self.searched.extend(searched);
        Ok(scanned)
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
