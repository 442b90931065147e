//! The topics of one run: how much stands in them, and everything that does.

use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::BorrowedMessage;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};
use testbed::kafka::{create_topic, delete_topic};
use testbed::wait::until_ok;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::shape::Reach;

const REQUEST: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);
/// How long reading may stand still before what is missing counts as lost.
const PATIENCE: Duration = Duration::from_secs(15);
/// And for each partition besides: a consumer of thousands needs that long to learn of them and to ask for all.
const PATIENCE_EACH: Duration = Duration::from_millis(5);
/// How long making thousands of topics may take.
const MAKING: Duration = Duration::from_mins(3);
/// Topics made by one request.
const AT_ONCE: usize = 500;

/// One topic, or one for each aggregate type.
#[derive(Debug, Clone)]
pub(crate) struct Topics {
    names: Vec<String>,
    route: String,
    partitions: i32,
}

impl Topics {
    /// One topic called `name`, which is used once.
    pub(crate) fn one(name: &str) -> Self {
        Self::of(name, Reach::default())
    }

    /// What events of `reach` are routed to: a topic called `name`, or the many that all runs of this
    /// reach share, because a broker keeps the files of deleted ones open for a minute.
    pub(crate) fn of(name: &str, reach: Reach) -> Self {
        if reach.topics == 1 {
            return Self {
                names: vec![name.to_owned()],
                route: name.to_owned(),
                partitions: reach.partitions,
            };
        }
        let prefix = format!("flat{}", reach.topics);
        Self {
            names: reach.types().iter().map(|kind| format!("{prefix}.{kind}")).collect(),
            route: format!("{prefix}.${{aggregate_type}}"),
            partitions: 1,
        }
    }

    /// As the router's configuration has it.
    pub(crate) fn route(&self) -> &str {
        &self.route
    }

    /// Where a record lies, by one number: its topic where there are many, else its partition.
    pub(crate) fn place(&self, record: &BorrowedMessage<'_>) -> Option<i32> {
        if self.names.len() == 1 {
            return Some(record.partition());
        }
        record.topic().rsplit_once(".type")?.1.parse().ok()
    }

    pub(crate) async fn create(&self, bootstrap: &str) -> anyhow::Result<()> {
        if let [name] = self.names.as_slice() {
            return create_topic(bootstrap, name, self.partitions, &[]).await;
        }
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", bootstrap).create()?;
        let options = AdminOptions::new().operation_timeout(Some(MAKING));
        for names in self.names.chunks(AT_ONCE) {
            let new = |name| NewTopic::new(name, self.partitions, TopicReplication::Fixed(1));
            let topics: Vec<NewTopic<'_>> = names.iter().map(|name| new(name)).collect();
            for outcome in admin.create_topics(&topics, &options).await? {
                match outcome {
                    Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                    Err((name, error)) => return Err(anyhow!("topic \"{name}\": {error}")),
                }
            }
        }
        until_ok(MAKING, format!("{} topics with leaders", self.names.len()), async || {
            let (bootstrap, topics) = (bootstrap.to_owned(), self.clone());
            spawn_blocking(move || Ends::of(&bootstrap, &topics)).await?.map(drop)
        })
        .await
    }

    /// Deletes what is used once.
    pub(crate) async fn delete(&self, bootstrap: &str) -> anyhow::Result<()> {
        match self.names.as_slice() {
            [name] => delete_topic(bootstrap, name).await,
            _ => Ok(()),
        }
    }

    fn all_partitions(&self, offset: Offset) -> anyhow::Result<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        for name in &self.names {
            for partition in 0..self.partitions {
                list.add_partition_offset(name, partition, offset)?;
            }
        }
        Ok(list)
    }
}

fn consumer(bootstrap: &str) -> anyhow::Result<BaseConsumer> {
    Ok(ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "bench")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "error")
        .create()?)
}

/// Asks for the end offsets of topics again and again, over one connection and in one request.
pub(crate) struct Ends {
    consumer: BaseConsumer,
    question: TopicPartitionList,
}

impl Ends {
    pub(crate) fn of(bootstrap: &str, topics: &Topics) -> anyhow::Result<Self> {
        let ends =
            Self { consumer: consumer(bootstrap)?, question: topics.all_partitions(Offset::End)? };
        // Connects, and learns the leaders, before anything is measured.
        ends.records()?;
        Ok(ends)
    }

    /// The end of each partition.
    pub(crate) fn positions(&self) -> anyhow::Result<TopicPartitionList> {
        Ok(self.consumer.offsets_for_times(self.question.clone(), REQUEST)?)
    }

    /// Records ever written, all partitions together.
    pub(crate) fn records(&self) -> anyhow::Result<u64> {
        self.positions()?.elements().iter().try_fold(0, |sum, partition| {
            partition.error().context("cannot get an end offset")?;
            let end = partition.offset().to_raw().context("a partition without an end offset")?;
            Ok(sum + u64::try_from(end)?)
        })
    }

    /// How often one may ask without keeping the broker from its work.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_micros(25) * u32::try_from(self.question.count()).unwrap_or(u32::MAX)
    }
}

/// Reads topics while they grow.
pub(crate) struct Follower {
    consumer: BaseConsumer,
    patience: Duration,
}

impl Follower {
    /// From their start.
    pub(crate) fn of(bootstrap: &str, topics: &Topics) -> anyhow::Result<Self> {
        Self::from(bootstrap, &topics.all_partitions(Offset::Beginning)?)
    }

    /// From a position in each partition.
    pub(crate) fn from(bootstrap: &str, start: &TopicPartitionList) -> anyhow::Result<Self> {
        let consumer = consumer(bootstrap)?;
        consumer.assign(start)?;
        let partitions = u32::try_from(start.count())?;
        Ok(Self { consumer, patience: PATIENCE + PATIENCE_EACH * partitions })
    }

    /// Shows `expected` records to `note`, or as many as come before the topics stand still.
    pub(crate) fn read(
        &self,
        expected: u64,
        mut note: impl FnMut(&BorrowedMessage<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if expected == 0 {
            return Ok(());
        }
        let mut read = 0;
        self.read_until(self.patience, |record| {
            read += 1;
            note(record)?;
            Ok(if read < expected { Reading::GoesOn } else { Reading::IsDone })
        })
    }

    /// Shows records to `note` until it has seen enough, or nothing has come for as long as `patience`.
    pub(crate) fn read_until(
        &self,
        patience: Duration,
        mut note: impl FnMut(&BorrowedMessage<'_>) -> anyhow::Result<Reading>,
    ) -> anyhow::Result<()> {
        let mut progress = Instant::now();
        while progress.elapsed() < patience {
            match self.consumer.poll(POLL) {
                None => {}
                // The client reconnects by itself: a broker may be away while it is read from.
                Some(Err(error)) if is_passing(&error) => {}
                Some(record) => {
                    if note(&record.context("cannot read the topic")?)? == Reading::IsDone {
                        return Ok(());
                    }
                    progress = Instant::now();
                }
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

/// Whether a reader has seen enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    GoesOn,
    IsDone,
}

fn is_passing(error: &rdkafka::error::KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown)
    )
}
