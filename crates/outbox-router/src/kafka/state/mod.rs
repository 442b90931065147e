//! The state topic: one compacted partition that keeps the latest record of each key. This module
//! knows how such a topic is made, read and written, not what the records mean.
//!
//! Only `cleanup.policy=compact` will do, as for the topics of Kafka Connect: with `compact,delete`
//! the record of a pipeline that has nothing to say for `retention.ms` would be deleted.
//!
//! [`StateTopic`] and the functions for commands block; the streaming task writes through
//! [`super::KafkaSink::write_state`].

mod cautions;
mod commands;
mod content;
mod reading;
mod records;

pub use commands::{put_state, read_state};
pub use content::{Anchor, StateEnd, StateRead, StateRecord};

use std::{sync::Arc, time::Duration};

use cautions::{LARGE_RECORD_BYTES, Told, alter, cautions};
use rdkafka::{types::RDKafkaErrorCode, util::Timeout};
use relay::{Code, Failure, TopicName};

use super::{
    errors::Cluster,
    ffi::{NewTopic, Producer},
    settings::KafkaSettings,
    topics::{ANSWER_WITHIN, Known, TopicDirectory, Unknown, code_of},
};

/// All records are in this partition: one log is one order.
pub(super) const PARTITION: i32 = 0;

/// The settings that a state topic is made with. `min.insync.replicas` is the broker's: it goes
/// with the number of brokers.
///
/// A reader reads everything that is not compacted yet, so what these settings bound is the time a
/// start takes. Compaction leaves the active segment alone: it is closed after 4 MiB, well above
/// the least that Kafka 4 takes (1 MiB, KIP-1030), or after ten minutes, so that a pipeline that
/// writes little is compacted too, for six small files an hour that the cleaner merges again. It
/// then runs as soon as a tenth of the log is new instead of half of it.
const SETTINGS: &[(&str, &str)] = &[
    ("cleanup.policy", "compact"),
    ("segment.bytes", "4194304"),
    ("segment.ms", "600000"),
    ("min.cleanable.dirty.ratio", "0.1"),
];

/// The least `max.message.bytes` that a state topic may have: the record of a pipeline with a
/// handful of tables and topics has a few kilobytes. What others may need, and how large a record
/// can become, is in `cautions`.
const RECORD_BYTES: usize = 64 * 1024;

/// Reads the state topic and sees to it that there is one, from any thread. It keeps the sink's
/// producer alive: let go of it before the sink is closed.
#[derive(Clone)]
pub struct StateTopic {
    directory: TopicDirectory,
    settings: KafkaSettings,
    name: TopicName,
}

impl StateTopic {
    /// The state topic `name` of the cluster that `producer` produces to.
    pub(super) fn new(
        producer: Arc<Producer>,
        cluster: Cluster,
        settings: &KafkaSettings,
        name: TopicName,
    ) -> Self {
        let directory = TopicDirectory::of(producer, cluster);
        Self { directory, settings: settings.clone(), name }
    }

    /// Sees to it that the topic exists, whether or not `create_topics` is set, and that it is fit
    /// for its purpose. What speaks against it all the same is returned, to be said.
    ///
    /// # Errors
    /// [`Code::TopicMissing`] when it is missing and cannot be made, [`Code::StateTopicUnsuitable`]
    /// when it is not a compacted topic of one partition, [`Code::TopicForbidden`], or nobody
    /// answers.
    pub fn open(&self) -> Result<Vec<Failure>, Failure> {
        let known = match self.directory.metadata(&self.name) {
            Ok(known) => known,
            Err(Unknown::Missing(_)) => self.make()?,
            Err(Unknown::Otherwise(failure)) => return Err(self.explain(failure)),
        };
        self.check(&known)
    }

    /// Where the topic ends: whether anybody wrote since [`StateTopic::read`].
    ///
    /// # Errors
    /// The topic is missing or forbidden, or nobody answers.
    pub fn end(&self) -> Result<StateEnd, Failure> {
        let client = self.directory.producer().client();
        let (_, offset) = client
            .fetch_watermarks(self.name.as_str(), PARTITION, Timeout::After(ANSWER_WITHIN))
            .map_err(|error| self.failure(code_of(&error), ""))?;
        // Of the latest metadata that the client has had, of whatever topic.
        let cluster_id = client.fetch_cluster_id(Duration::ZERO).unwrap_or_default();
        Ok(StateEnd { cluster_id, offset })
    }

    fn make(&self) -> Result<Known, Failure> {
        let topic = NewTopic {
            name: &self.name,
            partitions: 1,
            replication_factor: replication_factor(&self.settings).unwrap_or(-1),
            settings: SETTINGS,
        };
        self.directory.make(&topic).map_err(|error| {
            let failure = self.failure(error.code, &error.text);
            if failure.code == Code::KafkaUnreachable {
                return failure;
            }
            let reason = format!("it cannot be made: {}", error.text);
            self.failure(RDKafkaErrorCode::UnknownTopicOrPartition, &reason)
        })?;
        self.directory.await_topic(&self.name).map_err(|failure| self.explain(failure))
    }

    fn check(&self, known: &Known) -> Result<Vec<Failure>, Failure> {
        let (name, cluster) = (&self.name, self.directory.cluster());
        let brokers = cluster.brokers();
        if known.partitions.get() != 1 {
            let partitions = known.partitions;
            return Err(unsuitable(
                name,
                &format!("has {partitions} partitions instead of one"),
                format!(
                    "set kafka.state_topic to another name; or, if nothing else uses this one, \
                     kafka-topics.sh --bootstrap-server {brokers} --delete --topic {name}, \
                     and the router makes it again"
                ),
            ));
        }
        let [policy, limit, in_sync] = self.directory.settings(
            name,
            [c"cleanup.policy", c"max.message.bytes", c"min.insync.replicas"],
            known.broker,
        )?;
        if let Some(policy) = &policy
            && policy != "compact"
        {
            let why = format!("has cleanup.policy={policy}, which deletes records by age");
            return Err(unsuitable(name, &why, alter(cluster, name, "cleanup.policy=compact")));
        }
        let record_bytes = limit.and_then(|limit| limit.parse().ok());
        if let Some(limit) = record_bytes.filter(|limit| *limit < RECORD_BYTES) {
            let why = format!("takes records of {limit} bytes at most, {RECORD_BYTES} are needed");
            let setting = format!("max.message.bytes={RECORD_BYTES}");
            return Err(unsuitable(name, &why, alter(cluster, name, &setting)));
        }
        let in_sync = in_sync.and_then(|in_sync| in_sync.parse().ok());
        let told = Told { policy: policy.as_deref(), record_bytes, in_sync };
        Ok(cautions(cluster, name, known, &told))
    }

    fn failure(&self, error: RDKafkaErrorCode, detail: &str) -> Failure {
        // The first partition is there whenever the topic is.
        let error = if error == RDKafkaErrorCode::UnknownPartition {
            RDKafkaErrorCode::UnknownTopicOrPartition
        } else {
            error
        };
        let topic = Some(self.name.as_str());
        let failure = self.directory.cluster().failure(error, topic, detail);
        if failure.code == Code::KafkaUnreachable && detail.is_empty() {
            // It may be this partition's own trouble: no leader, or too few replicas.
            let detail = format!("{error} (state topic {})", self.name);
            return self.directory.cluster().failure(error, topic, &detail);
        }
        self.explain(failure)
    }

    fn explain(&self, failure: Failure) -> Failure {
        let replication_factor = replication_factor(&self.settings);
        explain(failure, self.directory.cluster(), &self.name, replication_factor)
    }
}

fn replication_factor(settings: &KafkaSettings) -> Option<i32> {
    settings.create_topics.map(|create| create.replication_factor).filter(|factor| *factor > 0)
}

fn unsuitable(name: &TopicName, why: &str, hint: String) -> Failure {
    Failure::new(Code::StateTopicUnsuitable, format!("the state topic {name} {why}")).hint(hint)
}

/// What to type where the state topic is missing or forbidden differs from what helps with other
/// topics.
pub(super) fn explain(
    failure: Failure,
    cluster: &Cluster,
    name: &TopicName,
    replication_factor: Option<i32>,
) -> Failure {
    let brokers = cluster.brokers();
    if failure.code == Code::TopicMissing {
        return failure.hint(command(brokers, name, replication_factor));
    }
    if failure.code == Code::TopicForbidden {
        return Failure::new(
            Code::TopicForbidden,
            format!("the state topic {name} may not be read and written"),
        )
        .hint(format!(
            "kafka-acls.sh --bootstrap-server {brokers} --add --allow-principal User:NAME \
             --operation Read --operation Write --operation DescribeConfigs --topic {name}"
        ));
    }
    if failure.code == Code::RecordTooLarge {
        let largest = format!("max.message.bytes={LARGE_RECORD_BYTES}");
        return Failure::new(
            Code::RecordTooLarge,
            format!(
                "the record of this pipeline is larger than the state topic {name} takes \
                 (its max.message.bytes, or the producer's message.max.bytes): it names every published table"
            ),
        )
        .hint(format!(
            "{}; or publish the outbox tables alone instead of FOR ALL TABLES",
            alter(cluster, name, &largest)
        ));
    }
    failure
}

/// The command that makes the topic as the router does.
pub fn state_topic_command(settings: &KafkaSettings, name: &TopicName) -> String {
    command(&settings.bootstrap_servers, name, replication_factor(settings))
}

fn command(brokers: &str, name: &TopicName, replication_factor: Option<i32>) -> String {
    // Left out, it is the broker's own.
    let factor = replication_factor
        .map(|factor| format!(" --replication-factor {factor}"))
        .unwrap_or_default();
    let settings: String =
        SETTINGS.iter().map(|(name, value)| format!(" --config {name}={value}")).collect();
    format!(
        "kafka-topics.sh --bootstrap-server {brokers} --create --topic {name} \
         --partitions 1{factor}{settings}"
    )
}
