//! Reads partitions until the records with certain ids are found.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    num::NonZeroI32,
    time::Duration,
};

use relay::{Failure, TopicName};
use tokio::time::Instant;

use crate::{
    cli::topic_lookups::TopicLookups,
    compare::IdHeaders,
    config::Config,
    kafka::{Extent, KafkaSettings, PartitionId, Polled, StoredRecord, TopicReader},
    prepare,
};

/// How long one wait for records lasts.
const POLL: Duration = Duration::from_millis(100);

/// Searches topics, and notes what it has read.
pub(super) struct Search {
    settings: KafkaSettings,
    pub(super) lookups: TopicLookups,
    id_headers: IdHeaders,
    deadline: Instant,
    pub(super) searched: Vec<Searched>,
}

/// Offsets of a partition, from the first to the one before the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) topic: TopicName,
    pub(super) partition: i32,
    pub(super) from: i64,
    pub(super) to: i64,
}

/// What was read of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Searched {
    pub(super) topic: TopicName,
    pub(super) partition: i32,
    pub(super) from: i64,
    /// The offset after the last that was looked at.
    pub(super) to: i64,
    pub(super) records: u64,
    pub(super) ending: Ending,
}

/// Why the reading of a partition has ended; the last means most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ending {
    /// Everything was found that was looked for.
    Found,
    /// Every record was read.
    Read,
    /// A transaction of another client is open there, which hides what comes after it.
    Hidden,
    /// The time was up.
    TimeUp,
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

/// A partition that is being read.
struct Reading {
    next: i64,
    to: i64,
    records: u64,
    is_done: bool,
}

impl Search {
    /// Makes the client that looks topics up.
    ///
    /// # Errors
    /// librdkafka refuses the settings.
    pub(super) fn open(config: &Config, timeout: Duration) -> Result<Self, Failure> {
        let id_headers = config.outbox.iter().map(|table| table.headers.id.as_str());
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

    /// Reads until every id was found, or every range was read. Each search has a client of its
    /// own, so that nothing that another has fetched comes late.
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
        let ranges: Vec<&Range> = ranges.iter().filter(|range| range.from < range.to).collect();
        if ranges.is_empty() || wanted.is_empty() {
            return Ok(found);
        }
        let mut reader = TopicReader::open(&self.settings)?;
        let mut readings = begin(&mut reader, &ranges)?;
        let mut ending = Ending::Read;
        while readings.values().any(|reading| !reading.is_done) {
            if Instant::now() >= self.deadline {
                ending = Ending::TimeUp;
                break;
            }
            let record = match reader.poll(POLL)? {
                None => continue,
                Some(Polled::End { partition, offset }) => {
                    if let Some(reading) = readings.get_mut(&partition) {
                        (reading.is_done, reading.next) = (true, reading.next.max(offset));
                    }
                    continue;
                }
                Some(Polled::Record(record)) => record,
            };
            let id = self.id_headers.id_of(&record.headers);
            let is_in_range = readings.get_mut(&record.partition).is_some_and(|r| r.take(&record));
            let Some(id) = id.filter(|_| is_in_range).and_then(|id| wanted.take(id)) else {
                continue;
            };
            if let Some(topic) = reader.topics().get(record.partition.topic) {
                found.insert(id, FoundRecord::of(topic.clone(), record));
            }
            if is_enough(wanted) {
                ending = Ending::Found;
                break;
            }
        }
        self.note(&reader, &ranges, &readings, ending);
        Ok(found)
    }

    fn note(
        &mut self,
        reader: &TopicReader,
        ranges: &[&Range],
        readings: &BTreeMap<PartitionId, Reading>,
        ending: Ending,
    ) {
        for range in ranges {
            let Some(topic) = reader.number(&range.topic) else { continue };
            let id = PartitionId { topic, partition: range.partition };
            let Some(reading) = readings.get(&id) else { continue };
            let to = reading.next.min(range.to);
            let ending = match reading.is_done {
                true if to < range.to => Ending::Hidden,
                true if ending == Ending::TimeUp => Ending::Read,
                _ => ending,
            };
            self.searched.push(Searched {
                topic: range.topic.clone(),
                partition: range.partition,
                from: range.from,
                to,
                records: reading.records,
                ending,
            });
        }
    }
}

impl Reading {
    /// Whether a record is of the range, and was not read before.
    fn take(&mut self, record: &StoredRecord) -> bool {
        if self.is_done || record.offset < self.next {
            return false;
        }
        self.next = record.offset + 1;
        self.is_done = self.next >= self.to;
        let is_in_range = record.offset < self.to;
        self.records += u64::from(is_in_range);
        is_in_range
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

fn begin(
    reader: &mut TopicReader,
    ranges: &[&Range],
) -> Result<BTreeMap<PartitionId, Reading>, Failure> {
    let mut readings = BTreeMap::new();
    for range in ranges {
        let topic = match reader.number(&range.topic) {
            Some(topic) => topic,
            None => {
                reader.skip(&range.topic)?;
                reader.topics().len().saturating_sub(1)
            }
        };
        let id = PartitionId { topic, partition: range.partition };
        reader.resume(id, range.from)?;
        let reading = Reading { next: range.from, to: range.to, records: 0, is_done: false };
        readings.insert(id, reading);
    }
    Ok(readings)
}
