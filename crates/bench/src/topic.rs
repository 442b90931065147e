//! The topics of one run: how many records they hold, and reading all of them.

use std::time::Duration;

use anyhow::{Context, anyhow};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::BorrowedMessage;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};
use testbed::kafka::{create_topic, delete_topic};
use testbed::reader::is_transient;
use testbed::wait::until_ok;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::shape::Distribution;

const REQUEST: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);
/// How long reading may make no progress before what is missing counts as lost.
const NO_PROGRESS_MAX: Duration = Duration::from_secs(15);
/// What each partition adds to that: a consumer of thousands of partitions needs this long to learn
/// of them and to fetch from all.
const NO_PROGRESS_MAX_PER_PARTITION: Duration = Duration::from_millis(5);
/// How long creating thousands of topics may take.
const CREATE_TOPICS_MAX: Duration = Duration::from_mins(3);
/// Topics created by one request.
const TOPICS_PER_REQUEST: usize = 500;

/// Runs a blocking call on a thread where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    spawn_blocking(call).await?
}

/// One topic, or one for each aggregate type, and the broker where they are.
#[derive(Debug, Clone)]
pub(crate) struct RunTopics {
    bootstrap: String,
    names: Vec<String>,
    route: String,
    partitions: i32,
}

impl RunTopics {
    /// Creates the topics that events of `distribution` are routed to: a topic called `name` for
    /// one run, or the many topics that all runs of this distribution share, because a broker keeps
    /// the files of deleted topics open for a minute.
    pub(crate) async fn create(
        bootstrap: &str,
        name: &str,
        distribution: Distribution,
    ) -> anyhow::Result<Self> {
        let bootstrap = bootstrap.to_owned();
        if distribution.topics == 1 {
            create_topic(&bootstrap, name, distribution.partitions, &[]).await?;
            let (names, route) = (vec![name.to_owned()], name.to_owned());
            let topics = Self { bootstrap, names, route, partitions: distribution.partitions };
            topics.wait_for_leaders().await?;
            return Ok(topics);
        }
        let prefix = format!("flat{}", distribution.topics);
        let names = distribution.types().iter().map(|kind| format!("{prefix}.{kind}")).collect();
        let route = format!("{prefix}.${{aggregate_type}}");
        let topics = Self { bootstrap, names, route, partitions: 1 };
        topics.create_many().await?;
        Ok(topics)
    }

    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// The topic route in the router's configuration.
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

    async fn create_many(&self) -> anyhow::Result<()> {
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", &self.bootstrap).create()?;
        let options = AdminOptions::new().operation_timeout(Some(CREATE_TOPICS_MAX));
        for names in self.names.chunks(TOPICS_PER_REQUEST) {
            let new = |name| NewTopic::new(name, self.partitions, TopicReplication::Fixed(1));
            let topics: Vec<NewTopic<'_>> = names.iter().map(|name| new(name)).collect();
            for outcome in admin.create_topics(&topics, &options).await? {
                match outcome {
                    Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                    Err((name, error)) => return Err(anyhow!("topic \"{name}\": {error}")),
                }
            }
        }
        self.wait_for_leaders().await
    }

    /// A topic that was made a moment ago may have none.
    async fn wait_for_leaders(&self) -> anyhow::Result<()> {
        let what = format!("{} topics with leaders", self.names.len());
        until_ok(CREATE_TOPICS_MAX, what, async || self.ends().await.map(drop)).await
    }

    /// Deletes the topic of one run; shared topics stay.
    pub(crate) async fn delete(&self) -> anyhow::Result<()> {
        match self.names.as_slice() {
            [name] => delete_topic(&self.bootstrap, name).await,
            _ => Ok(()),
        }
    }

    /// Returns a handle to ask for the end offsets, connected and with the leaders known.
    pub(crate) async fn ends(&self) -> anyhow::Result<EndOffsetsClient> {
        let topics = self.clone();
        blocking(move || {
            let question = topics.all_partitions(Offset::End)?;
            let ends = EndOffsetsClient { consumer: consumer(&topics.bootstrap)?, question };
            ends.records()?;
            Ok(ends)
        })
        .await
    }

    /// Records ever written, all partitions together.
    pub(crate) async fn records(&self) -> anyhow::Result<u64> {
        let ends = self.ends().await?;
        blocking(move || ends.records()).await
    }

    /// Begins to read from the start, and returns when everything that is in the topics was read:
    /// what is written next is received at once.
    pub(crate) async fn read_to_end_and_follow(&self) -> anyhow::Result<TopicReader> {
        let topics = self.clone();
        blocking(move || {
            let reader = topics.follow()?;
            reader.read_until(Duration::from_secs(1), |_| Ok(ReadNext::Continue))?;
            Ok(reader)
        })
        .await
    }

    /// Reads from the start.
    pub(crate) fn follow(&self) -> anyhow::Result<TopicReader> {
        self.follow_from(&self.all_partitions(Offset::Beginning)?)
    }

    /// Reads from a position in each partition.
    pub(crate) fn follow_from(&self, start: &TopicPartitionList) -> anyhow::Result<TopicReader> {
        let consumer = consumer(&self.bootstrap)?;
        consumer.assign(start)?;
        let partitions = u32::try_from(start.count())?;
        Ok(TopicReader {
            consumer,
            no_progress_max: NO_PROGRESS_MAX + NO_PROGRESS_MAX_PER_PARTITION * partitions,
        })
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
pub(crate) struct EndOffsetsClient {
    consumer: BaseConsumer,
    question: TopicPartitionList,
}

impl EndOffsetsClient {
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

    /// How long to wait between two requests, so as not to keep the broker from its work.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_micros(25) * u32::try_from(self.question.count()).unwrap_or(u32::MAX)
    }
}

/// Reads topics while they grow.
pub(crate) struct TopicReader {
    consumer: BaseConsumer,
    no_progress_max: Duration,
}

impl TopicReader {
    /// Passes `expected` records to `note`, or as many as arrive before reading makes no progress.
    pub(crate) fn read(
        &self,
        expected: u64,
        mut note: impl FnMut(&BorrowedMessage<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if expected == 0 {
            return Ok(());
        }
        let mut read = 0;
        self.read_until(self.no_progress_max, |record| {
            read += 1;
            note(record)?;
            Ok(if read < expected { ReadNext::Continue } else { ReadNext::Stop })
        })
    }

    /// Passes records to `note` until it has seen enough, or nothing has come for
    /// `no_progress_max`.
    pub(crate) fn read_until(
        &self,
        no_progress_max: Duration,
        mut note: impl FnMut(&BorrowedMessage<'_>) -> anyhow::Result<ReadNext>,
    ) -> anyhow::Result<()> {
        let mut progress = Instant::now();
        while progress.elapsed() < no_progress_max {
            match self.consumer.poll(POLL) {
                None => {}
                // The client reconnects by itself: a broker may be down while it is read from.
                Some(Err(error)) if is_transient(&error) => {}
                Some(record) => {
                    if note(&record.context("cannot read the topic")?)? == ReadNext::Stop {
                        return Ok(());
                    }
                    progress = Instant::now();
                }
            }
        }
        Ok(())
    }
}

/// Whether a reader has seen enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadNext {
    Continue,
    Stop,
}
