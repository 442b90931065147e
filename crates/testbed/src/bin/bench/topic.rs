//! A topic of one run: how much stands in it, and everything that does, from offset 0.

use std::time::Duration;

use anyhow::{Context, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::BorrowedMessage;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::time::Instant;

/// Partitions of every topic of the bench.
pub(crate) const PARTITIONS: i32 = 6;

const REQUEST: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);
/// How long reading may stand still before what is missing counts as lost.
const PATIENCE: Duration = Duration::from_secs(15);

fn consumer(bootstrap: &str) -> anyhow::Result<BaseConsumer> {
    Ok(ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "bench")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "error")
        .create()?)
}

fn all_partitions(topic: &str, offset: Offset) -> anyhow::Result<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(topic, partition, offset)?;
    }
    Ok(list)
}

/// Asks for the end offsets of a topic again and again, over one connection and in one request.
pub(crate) struct Ends {
    consumer: BaseConsumer,
    question: TopicPartitionList,
}

impl Ends {
    pub(crate) fn of(bootstrap: &str, topic: &str) -> anyhow::Result<Self> {
        let ends =
            Self { consumer: consumer(bootstrap)?, question: all_partitions(topic, Offset::End)? };
        // Connects, and learns the leaders, before anything is measured.
        ends.records()?;
        Ok(ends)
    }

    /// Records in the topic, all partitions together.
    pub(crate) fn records(&self) -> anyhow::Result<u64> {
        let answer = self.consumer.offsets_for_times(self.question.clone(), REQUEST)?;
        answer.elements().iter().try_fold(0, |sum, partition| {
            partition.error().context("cannot get an end offset")?;
            let end = partition.offset().to_raw().context("a partition without an end offset")?;
            Ok(sum + u64::try_from(end)?)
        })
    }
}

/// Reads a topic from its start while it grows.
pub(crate) struct Follower {
    consumer: BaseConsumer,
}

impl Follower {
    pub(crate) fn of(bootstrap: &str, topic: &str) -> anyhow::Result<Self> {
        let consumer = consumer(bootstrap)?;
        consumer.assign(&all_partitions(topic, Offset::Beginning)?)?;
        Ok(Self { consumer })
    }

    /// Shows `expected` records to `note`, or as many as come before the topic stands still.
    pub(crate) fn read(
        &self,
        expected: u64,
        mut note: impl FnMut(&BorrowedMessage<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (mut read, mut progress) = (0, Instant::now());
        while read < expected && progress.elapsed() < PATIENCE {
            if let Some(record) = self.consumer.poll(POLL) {
                note(&record.context("cannot read the topic")?)?;
                read += 1;
                progress = Instant::now();
            }
        }
        Ok(())
    }

    /// Waits until reading has begun, so that what is written next is received at once.
    pub(crate) fn settle(&self) -> anyhow::Result<()> {
        ensure!(self.consumer.poll(Duration::from_secs(1)).is_none(), "the topic is not empty");
        Ok(())
    }
}
