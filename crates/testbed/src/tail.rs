//! A reader that reads to the end of its topics on request, and continues there the next time.
//!
//! Where topics are read hundreds of times in one run, reading from the start each time would take
//! most of the time. One connection is kept, and the client library has most of the records before
//! they are asked for.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use tokio::task::block_in_place;
use tokio::time::Instant;

use crate::kafka::led_partitions;
use crate::reader::{
    ConsumedRecord, NO_PROGRESS_MAX, POLL, consumer, is_transient, patiently, watermarks,
};

/// How long a client may read nothing before another one reads on.
const CLIENT_LASTS: Duration = Duration::from_secs(15);

/// One partition, and the offset of the next record that will be read from it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Position {
    topic: Arc<str>,
    partition: i32,
    next: i64,
}

/// Where every partition ended at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndOffsets(Vec<Position>);

impl EndOffsets {
    /// Whether a record was in Kafka at that moment.
    pub fn contain(&self, record: &ConsumedRecord) -> bool {
        self.0.iter().any(|end| {
            (&end.topic, end.partition) == (&record.topic, record.partition)
                && record.offset < end.next
        })
    }

    /// Records of one topic.
    pub fn records_of(&self, topic: &str) -> i64 {
        self.0.iter().filter(|end| *end.topic == *topic).map(|end| end.next).sum()
    }
}

/// The reader, with everything it has read. Its calls block; they need a runtime of several
/// threads.
pub struct Tail {
    bootstrap: String,
    consumer: BaseConsumer,
    positions: Vec<Position>,
    seen: Vec<ConsumedRecord>,
}

impl Tail {
    /// Starts at offset 0 of every partition that `topics` have now.
    ///
    /// # Errors
    ///
    /// Fails when a topic does not exist.
    pub fn open(bootstrap: &str, topics: &[&str]) -> anyhow::Result<Self> {
        block_in_place(|| {
            let consumer = consumer(bootstrap)?;
            let mut positions = Vec::new();
            for topic in topics {
                for partition in patiently(bootstrap, &consumer, |one| led_partitions(one, topic))?
                {
                    positions.push(Position { topic: Arc::from(*topic), partition, next: 0 });
                }
            }
            let bootstrap = bootstrap.to_owned();
            let tail = Self { bootstrap, consumer, positions, seen: Vec::new() };
            tail.assign()?;
            Ok(tail)
        })
    }

    /// Reads every partition on from its position.
    fn assign(&self) -> anyhow::Result<()> {
        let mut assignment = TopicPartitionList::new();
        for at in &self.positions {
            assignment.add_partition_offset(&at.topic, at.partition, Offset::Offset(at.next))?;
        }
        Ok(self.consumer.assign(&assignment)?)
    }

    /// Where every partition ends now.
    ///
    /// # Errors
    ///
    /// Fails when a leader cannot be reached.
    pub fn ends(&self) -> anyhow::Result<EndOffsets> {
        let end = |at: &Position| -> anyhow::Result<Position> {
            let (low, next) = watermarks(&self.bootstrap, &self.consumer, &at.topic, at.partition)?;
            ensure!(low == 0, "records of topic \"{}\" were deleted", at.topic);
            Ok(Position { next, ..at.clone() })
        };
        block_in_place(|| self.positions.iter().map(end).collect::<Result<_, _>>().map(EndOffsets))
    }

    /// Reads up to `ends` at least, and returns what is new.
    ///
    /// # Errors
    ///
    /// Fails when reading makes no progress.
    pub fn read_to(&mut self, ends: &EndOffsets) -> anyhow::Result<&[ConsumedRecord]> {
        let before = self.seen.len();
        let (mut progress, mut assigned) = (Instant::now(), Instant::now());
        while !self.has_reached(ends) {
            match block_in_place(|| self.consumer.poll(POLL)) {
                Some(Ok(message)) => {
                    let at = self
                        .positions
                        .iter_mut()
                        .find(|at| {
                            *at.topic == *message.topic() && at.partition == message.partition()
                        })
                        .context("got a record of a partition that was not asked for")?;
                    at.next = message.offset() + 1;
                    self.seen.push(ConsumedRecord::new(&at.topic, &message));
                    progress = Instant::now();
                }
                Some(Err(error))
                    if !is_transient(&error) && !matches!(error, KafkaError::PartitionEOF(_)) =>
                {
                    return Err(error).context("cannot read the topics");
                }
                Some(Err(_)) | None => {
                    ensure!(
                        progress.elapsed() < NO_PROGRESS_MAX,
                        "reading made no progress for {NO_PROGRESS_MAX:?}"
                    );
                    // A client may keep a leader that is none any more.
                    if progress.elapsed().min(assigned.elapsed()) > CLIENT_LASTS {
                        self.consumer = consumer(&self.bootstrap)?;
                        self.assign()?;
                        assigned = Instant::now();
                    }
                }
            }
        }
        Ok(self.seen.get(before..).unwrap_or_default())
    }

    /// Everything that was read.
    pub fn seen(&self) -> &[ConsumedRecord] {
        &self.seen
    }

    fn has_reached(&self, ends: &EndOffsets) -> bool {
        self.positions.iter().zip(&ends.0).all(|(at, end)| at.next >= end.next)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn record(topic: &str, partition: i32, offset: i64) -> ConsumedRecord {
        ConsumedRecord {
            topic: Arc::from(topic),
            partition,
            offset,
            key: None,
            value: None,
            headers: Vec::new(),
            timestamp: None,
            received: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn end_offsets_contain_the_records_before_them_in_the_same_partition() {
        let end =
            |topic: &str, partition, next| Position { topic: Arc::from(topic), partition, next };
        let ends = EndOffsets(vec![end("a", 0, 5), end("a", 1, 2), end("b", 0, 0)]);
        assert!(ends.contain(&record("a", 0, 4)) && ends.contain(&record("a", 1, 1)));
        assert!(!ends.contain(&record("a", 0, 5)) && !ends.contain(&record("b", 0, 0)));
        assert_eq!((ends.records_of("a"), ends.records_of("b")), (7, 0));
    }
}
