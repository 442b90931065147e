//! Reads topics from a time on, for commands that compare them with what the slot holds. It
//! produces nothing, joins no group and commits no offset.

use std::{num::NonZeroI32, time::Duration};

use rdkafka::{types::RDKafkaErrorCode as E, util::Timeout};
use relay::{Case, Failure, TopicName};

use super::{
    KafkaSettings,
    errors::Cluster,
    ffi::{Fetched, Reader},
    topics::code_of,
};

/// How long the cluster may take to answer one request.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Errors after which no record comes, although librdkafka retries.
const ENDS_READING: [E; 4] =
    [E::UnknownTopic, E::UnknownTopicOrPartition, E::UnknownPartition, E::TopicAuthorizationFailed];

/// A client that reads all partitions of the topics that it is given.
pub struct TopicReader {
    cluster: Cluster,
    reader: Reader,
    topics: Vec<TopicName>,
}

/// A partition of a topic, the topic by its number in the order in which topics were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId {
    /// The topic's number.
    pub topic: usize,
    /// The partition's number.
    pub partition: i32,
}

impl PartitionId {
    /// Whether both are of one topic, and not the same.
    pub fn is_another_of_topic(self, other: Self) -> bool {
        self.topic == other.topic && self.partition != other.partition
    }
}

/// A record as the broker stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Where it is.
    pub partition: PartitionId,
    /// Its offset.
    pub offset: i64,
    /// Its timestamp.
    pub timestamp_ms: i64,
    /// Its key; `None` is Kafka's null.
    pub key: Option<Vec<u8>>,
    /// Its value; `None` is Kafka's null.
    pub value: Option<Vec<u8>>,
    /// Its headers, in their order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// What a poll brought.
#[derive(Debug)]
pub enum Polled {
    /// A record.
    Record(StoredRecord),
    /// The partition has no further record at present.
    End {
        /// Which.
        partition: PartitionId,
        /// Where it ends. What another client's open transaction hides is past that.
        offset: i64,
    },
}

/// Where the reading of a partition begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadFrom {
    /// The first offset that is read.
    pub offset: i64,
    /// Where the partition ended when the reading began.
    pub end: i64,
}

/// Which offsets a partition has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The first offset that is not deleted.
    pub low: i64,
    /// The first record that is not older than the time that was asked for; `end` if there is none.
    pub at: i64,
    /// Where the partition ends.
    pub end: i64,
}

impl TopicReader {
    /// Makes the client, which connects in the background.
    ///
    /// # Errors
    /// A property is refused.
    pub fn open(settings: &KafkaSettings) -> Result<Self, Failure> {
        // A record of an aborted transaction is none.
        Self::isolated(settings, "read_committed")
    }

    /// The same for asking for offsets alone: a partition ends after its last record, although a
    /// transaction that is open hides it.
    ///
    /// # Errors
    /// A property is refused.
    pub fn open_for_offsets(settings: &KafkaSettings) -> Result<Self, Failure> {
        Self::isolated(settings, "read_uncommitted")
    }

    fn isolated(settings: &KafkaSettings, level: &str) -> Result<Self, Failure> {
        let refused = |why: String| Failure::of(Case::ProducerSettings, why);
        let mut config = settings.reader_config().map_err(|error| refused(error.to_string()))?;
        config.set("isolation.level", level);
        let reader = Reader::open(&config).map_err(|error| refused(error.to_string()))?;
        let cluster = Cluster::new(&settings.bootstrap_servers);
        Ok(Self { cluster, reader, topics: Vec::new() })
    }

    /// Begins to read a topic at the first records that are not older than `millis`, gives it the
    /// next number, and returns where each partition begins.
    ///
    /// # Errors
    /// No broker answers, or the topic cannot be read.
    pub fn read(
        &mut self,
        topic: &TopicName,
        partitions: NonZeroI32,
        millis: i64,
    ) -> Result<Vec<ReadFrom>, Failure> {
        let extents = self.extents(topic, partitions, millis)?;
        let number =
            self.reader.add(topic).map_err(|error| self.failure(code_of(&error), topic))?;
        self.topics.push(topic.clone());
        let mut begun = Vec::with_capacity(extents.len());
        for (partition, Extent { at, end, .. }) in (0..).zip(extents) {
            self.reader.start(number, partition, at).map_err(|error| self.failure(error, topic))?;
            begun.push(ReadFrom { offset: at, end });
        }
        Ok(begun)
    }

    /// Which offsets the partitions of a topic have, in their order. Nothing is read.
    ///
    /// # Errors
    /// No broker answers, or it refuses the topic.
    pub fn extents(
        &self,
        topic: &TopicName,
        partitions: NonZeroI32,
        millis: i64,
    ) -> Result<Vec<Extent>, Failure> {
        let offsets = self
            .reader
            .offsets_at(topic, partitions.get(), millis, ANSWER_WITHIN)
            .map_err(|error| self.failure(error, topic))?;
        let extent = |(partition, offset): (i32, Option<i64>)| {
            let (low, end) = self
                .reader
                .client()
                .fetch_watermarks(topic.as_str(), partition, Timeout::After(ANSWER_WITHIN))
                .map_err(|error| self.failure(code_of(&error), topic))?;
            Ok(Extent { low, at: offset.unwrap_or(end).clamp(low, end), end })
        };
        (0..).zip(offsets).map(extent).collect()
    }

    /// Gives a topic that is not read the next number.
    ///
    /// # Errors
    /// librdkafka refuses the name.
    pub fn skip(&mut self, topic: &TopicName) -> Result<(), Failure> {
        self.reader.add(topic).map_err(|error| self.failure(code_of(&error), topic))?;
        self.topics.push(topic.clone());
        Ok(())
    }

    /// Pauses a partition. Records that were fetched already may still come.
    ///
    /// # Errors
    /// The partition is not read.
    pub fn pause(&mut self, partition: PartitionId) -> Result<(), Failure> {
        let PartitionId { topic, partition } = partition;
        self.reader.stop(topic, partition).map_err(|error| self.cluster.failure(error, None, ""))
    }

    /// Reads a paused partition on from this offset, or one of a topic that is not read.
    ///
    /// # Errors
    /// The partition is read already, or unknown.
    pub fn resume(&mut self, partition: PartitionId, offset: i64) -> Result<(), Failure> {
        let PartitionId { topic, partition } = partition;
        let started = self.reader.start(topic, partition, offset);
        started.map_err(|error| self.cluster.failure(error, None, ""))
    }

    /// Where a partition ends now.
    ///
    /// # Errors
    /// No broker answers.
    pub fn end(&self, partition: PartitionId) -> Result<i64, Failure> {
        let Some(topic) = self.topics.get(partition.topic) else { return Ok(0) };
        let timeout = Timeout::After(ANSWER_WITHIN);
        let watermarks =
            self.reader.client().fetch_watermarks(topic.as_str(), partition.partition, timeout);
        let (_, end) = watermarks.map_err(|error| self.failure(code_of(&error), topic))?;
        Ok(end)
    }

    /// The number of a topic that was added.
    pub fn number(&self, topic: &TopicName) -> Option<usize> {
        self.topics.iter().position(|known| known == topic)
    }

    /// The names of the topics that were added, by number.
    pub fn topics(&self) -> &[TopicName] {
        &self.topics
    }

    /// Waits up to `limit` for the next record or end of a partition. An error that librdkafka
    /// retries is logged at level debug; while it lasts, no record comes.
    ///
    /// # Errors
    /// A topic was deleted, or may no longer be read.
    pub fn poll(&self, limit: Duration) -> Result<Option<Polled>, Failure> {
        Ok(match self.reader.next(limit) {
            None => None,
            Some(Fetched::Record(record)) => Some(Polled::Record(StoredRecord {
                partition: PartitionId { topic: record.topic, partition: record.partition },
                offset: record.offset,
                timestamp_ms: record.timestamp_ms,
                key: record.key,
                value: record.value,
                headers: record.headers,
            })),
            Some(Fetched::End { topic, partition, offset }) => {
                Some(Polled::End { partition: PartitionId { topic, partition }, offset })
            }
            Some(Fetched::Error(error)) if ENDS_READING.contains(&error.code) => {
                return Err(self.cluster.failure(error.code, None, &error.text));
            }
            Some(Fetched::Error(error)) => {
                tracing::debug!(code = %error.code, "Kafka says: {}", error.text);
                None
            }
        })
    }

    fn failure(&self, error: E, topic: &TopicName) -> Failure {
        self.cluster.failure(error, Some(topic.as_str()), "")
    }
}
