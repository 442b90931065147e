//! Creates, extends, configures, deletes and measures topics with the ordinary client.

use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication, TopicResult,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaErrorCode;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::KafkaCluster;
use crate::reader::watermarks;
use crate::wait::until_ok;

const DEADLINE: Duration = Duration::from_secs(30);
const REQUEST: Duration = Duration::from_secs(5);
const ATTEMPTS: u32 = 6;

/// The configuration of every client of this crate. A broker that is frozen accepts connections and
/// never answers: a client that happens to ask that broker first must soon ask another one.
pub(crate) fn client_config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("api.version.request.timeout.ms", "1000")
        .set("socket.connection.setup.timeout.ms", "2000")
        .set("socket.timeout.ms", "3000")
        .set("reconnect.backoff.max.ms", "500");
    config
}

fn client(bootstrap: &str) -> anyhow::Result<AdminClient<DefaultClientContext>> {
    Ok(client_config(bootstrap).create()?)
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(REQUEST)).request_timeout(Some(REQUEST))
}

/// Sends an admin request, and repeats it when there is no response. Each attempt has a new client,
/// because any broker may be the one to ask, a frozen one too, and a client stays with its choice.
/// A repeated request may be refused because the first one has worked; so the caller then reads the
/// cluster's state.
async fn submit<F, Fut>(bootstrap: &str, attempt: F) -> anyhow::Result<()>
where
    F: Fn(AdminClient<DefaultClientContext>) -> Fut,
    Fut: Future<Output = KafkaResult<Vec<TopicResult>>>,
{
    const UNANSWERED: KafkaError = KafkaError::AdminOp(RDKafkaErrorCode::OperationTimedOut);
    for asked_before in 0..ATTEMPTS {
        match attempt(client(bootstrap)?).await {
            Err(error) if error == UNANSWERED => {}
            Ok(outcomes) if asked_before == 0 => return accepted(outcomes),
            outcome => return Ok(outcome.map(drop)?),
        }
    }
    bail!("the cluster did not answer {ATTEMPTS} requests")
}

/// Metadata and watermark calls block, so they run on a thread of their own.
async fn with_consumer<T, F>(bootstrap: &str, call: F) -> anyhow::Result<T>
where
    T: Send + 'static,
    F: FnOnce(&BaseConsumer) -> anyhow::Result<T> + Send + 'static,
{
    let mut config = client_config(bootstrap);
    config.set("group.id", "testbed");
    spawn_blocking(move || call(&config.create()?)).await?
}

pub(super) async fn broker_count(bootstrap: &str) -> anyhow::Result<usize> {
    with_consumer(bootstrap, |consumer| Ok(consumer.fetch_metadata(None, REQUEST)?.brokers().len()))
        .await
}

/// The ids of a topic's partitions. It is an error if one has no leader.
pub(crate) fn led_partitions(consumer: &BaseConsumer, topic: &str) -> anyhow::Result<Vec<i32>> {
    let metadata = consumer.fetch_metadata(Some(topic), REQUEST)?;
    let found = metadata.topics().first().context("no metadata")?;
    if let Some(error) = found.error() {
        bail!("topic \"{topic}\": {}", RDKafkaErrorCode::from(error));
    }
    ensure!(
        found.partitions().iter().all(|partition| partition.leader() >= 0),
        "topic \"{topic}\" has a partition without a leader"
    );
    let mut ids: Vec<i32> = found.partitions().iter().map(|partition| partition.id()).collect();
    ids.sort_unstable();
    Ok(ids)
}

async fn await_partitions(bootstrap: &str, topic: &str, expected: usize) -> anyhow::Result<()> {
    let what = format!("{expected} led partitions of topic \"{topic}\"");
    until_ok(DEADLINE, what, async || {
        let topic = topic.to_owned();
        let found =
            with_consumer(bootstrap, move |consumer| led_partitions(consumer, &topic)).await?;
        ensure!(found.len() == expected, "it has {}", found.len());
        Ok(())
    })
    .await
}

fn accepted(outcomes: Vec<TopicResult>) -> anyhow::Result<()> {
    outcomes.into_iter().try_for_each(|outcome| {
        outcome.map(drop).map_err(|(topic, error)| anyhow!("topic \"{topic}\": {error}"))
    })
}

/// Makes a topic and returns when every partition has a leader.
///
/// # Errors
///
/// Fails when the cluster refuses.
pub async fn create_topic(
    bootstrap: &str,
    name: &str,
    partitions: i32,
    configs: &[(&str, &str)],
) -> anyhow::Result<()> {
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    let topic = configs.iter().fold(topic, |topic, (name, value)| topic.set(name, value));
    // A broker whose heartbeats are late is fenced, and too few are left for a moment.
    let until = Instant::now() + DEADLINE;
    loop {
        let created =
            submit(bootstrap, async |admin| admin.create_topics([&topic], &options()).await).await;
        match created {
            Err(error)
                if error.to_string().contains("InvalidReplicationFactor")
                    && Instant::now() < until =>
            {
                sleep(Duration::from_millis(500)).await;
            }
            created => break created?,
        }
    }
    await_partitions(bootstrap, name, usize::try_from(partitions)?).await
}

impl KafkaCluster {
    /// Deletes the records of a partition before an offset, as retention does.
    ///
    /// # Errors
    ///
    /// Fails when the broker refuses.
    pub async fn delete_records(
        &self,
        topic: &str,
        partition: i32,
        before: i64,
    ) -> anyhow::Result<()> {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(topic, partition, Offset::Offset(before))?;
        let deleted = client(&self.bootstrap())?.delete_records(&offsets, &options()).await?;
        for partition in deleted.elements() {
            partition.error()?;
        }
        Ok(())
    }

    /// Makes a topic and returns when every partition has a leader.
    ///
    /// # Errors
    ///
    /// Fails when the cluster refuses.
    pub async fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> anyhow::Result<()> {
        create_topic(&self.bootstrap(), name, partitions, configs).await
    }

    /// Creates a topic whose partition *n* has its only replica on the *n*-th of the named brokers.
    ///
    /// # Errors
    ///
    /// Fails when the cluster refuses.
    pub async fn create_topic_on(&self, name: &str, leaders: &[i32]) -> anyhow::Result<()> {
        let placement: Vec<&[i32]> = leaders.chunks(1).collect();
        self.create_replicated_topic(name, &placement).await
    }

    /// Creates a topic with these brokers as the replicas of each partition.
    ///
    /// # Errors
    ///
    /// Fails when the cluster refuses.
    pub async fn create_replicated_topic(
        &self,
        name: &str,
        placement: &[&[i32]],
    ) -> anyhow::Result<()> {
        let count = i32::try_from(placement.len())?;
        let topic = NewTopic::new(name, count, TopicReplication::Variable(placement));
        let bootstrap = self.bootstrap();
        submit(&bootstrap, async |admin| admin.create_topics([&topic], &options()).await).await?;
        await_partitions(&bootstrap, name, placement.len()).await
    }

    /// Adds partitions to a topic.
    ///
    /// # Errors
    ///
    /// Fails when the cluster refuses.
    pub async fn grow_topic(&self, name: &str, partitions: usize) -> anyhow::Result<()> {
        let (bootstrap, grown) = (self.bootstrap(), NewPartitions::new(name, partitions));
        submit(&bootstrap, async |admin| admin.create_partitions([&grown], &options()).await)
            .await?;
        await_partitions(&bootstrap, name, partitions).await
    }

    /// Changes the configuration of a topic, such as `max.message.bytes`. What is not named returns
    /// to its default.
    ///
    /// # Errors
    ///
    /// Fails when the cluster refuses.
    pub async fn set_topic(&self, name: &str, configs: &[(&str, &str)]) -> anyhow::Result<()> {
        let change = AlterConfig::new(ResourceSpecifier::Topic(name));
        let change = configs.iter().fold(change, |change, (name, value)| change.set(name, value));
        for outcome in client(&self.bootstrap())?.alter_configs([&change], &options()).await? {
            outcome.map_err(|(_, error)| anyhow!("topic \"{name}\": {error}"))?;
        }
        Ok(())
    }

    /// Deletes a topic and returns when it is gone.
    ///
    /// # Errors
    ///
    /// Fails when the cluster refuses.
    pub async fn delete_topic(&self, name: &str) -> anyhow::Result<()> {
        delete_topic(&self.bootstrap(), name).await
    }

    /// The end offset of each partition of a topic, by partition.
    ///
    /// # Errors
    ///
    /// Fails when the topic does not exist or a leader cannot be reached.
    pub async fn end_offsets(&self, topic: &str) -> anyhow::Result<Vec<i64>> {
        end_offsets(&self.bootstrap(), topic).await
    }
}

/// Deletes a topic and returns when it is gone.
///
/// # Errors
///
/// Fails when the cluster refuses.
pub async fn delete_topic(bootstrap: &str, name: &str) -> anyhow::Result<()> {
    submit(bootstrap, async |admin| admin.delete_topics(&[name], &options()).await).await?;
    until_ok(DEADLINE, format!("the end of topic \"{name}\""), async || {
        let topic = name.to_owned();
        let found =
            with_consumer(bootstrap, move |consumer| Ok(led_partitions(consumer, &topic).is_ok()));
        ensure!(!found.await?, "it is still there");
        Ok(())
    })
    .await
}

/// The end offset of each partition of a topic, by partition.
///
/// # Errors
///
/// Fails when the topic does not exist or a leader cannot be reached.
pub async fn end_offsets(bootstrap: &str, topic: &str) -> anyhow::Result<Vec<i64>> {
    let (topic, asked) = (topic.to_owned(), bootstrap.to_owned());
    with_consumer(bootstrap, move |consumer| {
        led_partitions(consumer, &topic)?
            .into_iter()
            .map(|partition| Ok(watermarks(&asked, consumer, &topic, partition)?.1))
            .collect()
    })
    .await
}
