//! The state topic: one compacted partition that keeps the latest record of each key. This module
//! creates, reads and writes such a topic; it does not know what the records mean.
//!
//! Only `cleanup.policy=compact` is accepted, as for the topics of Kafka Connect: with
//! `compact,delete` the witness of a pipeline that writes nothing for `retention.ms` would be
//! deleted.
//!
//! [`StateTopic`] and the functions for commands block. The streaming task writes through
//! [`super::KafkaSink::write_state`].

mod cautions;
mod commands;
mod content;
mod reading;
mod records;

pub use commands::{command_state_topic, put_state};
pub use content::{Anchor, StateExtent, StateLog};

use std::{sync::Arc, time::Duration};

use cautions::{LARGE_RECORD_BYTES, TopicSettings, cautions, to_alter};
use rdkafka::{
    ClientContext, client::Client, error::KafkaError, types::RDKafkaErrorCode, util::Timeout,
};
use relay::{Case, Code, Failure, Name, TopicName, witness::TopicSight};

use super::{
    errors::Cluster,
    ffi::{NewTopic, Producer},
    settings::KafkaSettings,
    topics::{ANSWER_WITHIN, MetadataError, TopicClient, TopicMetadata, code_of},
};
use crate::codes::hint;

/// The partition of all records: a single log gives them one order.
pub(super) const PARTITION: i32 = 0;

/// The settings that a state topic is created with. `min.insync.replicas` is left to the broker's
/// default, because it depends on the number of brokers.
///
/// A reader reads everything that is not compacted yet, so these settings limit the time of a
/// start. Compaction leaves the active segment alone. That segment is closed after 4 MiB, well
/// above the least that Kafka 4 accepts (1 MiB, KIP-1030), or after ten minutes, so that a pipeline
/// that writes little is compacted, too; the price is six small files an hour, which the cleaner
/// merges again. Compaction runs as soon as a tenth of the log is new instead of half of it.
const SETTINGS: &[(&str, &str)] = &[
    ("cleanup.policy", "compact"),
    ("segment.bytes", "4194304"),
    ("segment.ms", "600000"),
    ("min.cleanable.dirty.ratio", "0.1"),
];

/// The least `max.message.bytes` that a state topic may have. The witness of a pipeline with a
/// handful of tables and topics has a few kilobytes. `cautions` describes larger pipelines and how
/// large a record can become.
const RECORD_BYTES: usize = 64 * 1024;

/// Creates, checks and reads the state topic, from any thread. It keeps the sink's producer alive,
/// so it has to be dropped before the sink is closed.
#[derive(Clone)]
pub struct StateTopic {
    topic_client: TopicClient,
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
        let topic_client = TopicClient::of(producer, cluster);
        Self { topic_client, settings: settings.clone(), name }
    }

    /// Creates the topic if it is missing, whether or not `create_topics` is set, and checks its
    /// settings. Returns cautions to be logged, which do not prevent its use.
    ///
    /// # Errors
    /// [`Code::TopicMissing`] when the topic is missing and cannot be created,
    /// [`Code::StateTopicUnsuitable`] when it is not a compacted topic of one partition or its
    /// `max.message.bytes` is too small, [`Code::TopicForbidden`], or [`Code::KafkaUnreachable`].
    pub fn open(&self) -> Result<Vec<Failure>, Failure> {
        let known = match self.topic_client.metadata(&self.name) {
            Ok(known) => known,
            Err(MetadataError::Missing(_)) => self.make()?,
            Err(MetadataError::Other(failure)) => return Err(self.explain(failure)),
        };
        self.check(&known)
    }

    /// Checks the topic as [`StateTopic::open`] does, and creates nothing; `None`: it is missing.
    ///
    /// # Errors
    /// As [`StateTopic::open`].
    pub(super) fn inspect(&self) -> Result<Option<Vec<Failure>>, Failure> {
        match self.topic_client.metadata(&self.name) {
            Ok(known) => self.check(&known).map(Some),
            Err(MetadataError::Missing(_)) => Ok(None),
            Err(MetadataError::Other(failure)) => Err(self.explain(failure)),
        }
    }

    /// What there is under the names of topics, by the same client; shorter than `names` after an
    /// error. `None`: no broker says it.
    pub fn sights(&self, names: &[&TopicName]) -> Vec<Option<TopicSight>> {
        self.topic_client.sights(names)
    }

    /// Reads where the topic begins and ends, which shows whether it was written to, or lost
    /// records, since [`StateTopic::read`].
    ///
    /// # Errors
    /// The topic is missing or forbidden, or no broker answers.
    pub fn extent(&self) -> Result<StateExtent, Failure> {
        let client = self.topic_client.producer().client();
        let (begin, end) = client
            .fetch_watermarks(self.name.as_str(), PARTITION, Timeout::After(ANSWER_WITHIN))
            .map_err(|error| self.failure(self.offsets_error(client, &error), ""))?;
        // From the latest metadata that the client has received, of any topic. Does not wait.
        let cluster_id = client.fetch_cluster_id(Duration::ZERO).unwrap_or_default();
        Ok(StateExtent { cluster_id, begin, end })
    }

    fn make(&self) -> Result<TopicMetadata, Failure> {
        let topic = NewTopic {
            name: &self.name,
            partitions: 1,
            replication_factor: replication_factor(&self.settings).unwrap_or(-1),
            settings: SETTINGS,
        };
        self.topic_client.make(&topic).map_err(|error| {
            let failure = self.failure(error.code, &error.text);
            if failure.code == Code::KafkaUnreachable {
                return failure;
            }
            let reason = format!("it cannot be created: {}", error.text);
            self.failure(RDKafkaErrorCode::UnknownTopicOrPartition, &reason)
        })?;
        self.topic_client.await_topic(&self.name).map_err(|failure| self.explain(failure))
    }

    fn check(&self, known: &TopicMetadata) -> Result<Vec<Failure>, Failure> {
        let (name, cluster) = (&self.name, self.topic_client.cluster());
        if known.partitions.get() != 1 {
            let partitions = known.partitions;
            let what = format!("the state topic {name} has {partitions} partitions instead of one");
            let failure = Failure::new(Code::StateTopicUnsuitable, what);
            return Err(cluster.named(failure, Some(name.as_str())));
        }
        let [policy, limit, in_sync] = self.topic_client.settings(
            name,
            [c"cleanup.policy", c"max.message.bytes", c"min.insync.replicas"],
            known.broker,
        )?;
        if let Some(policy) = &policy
            && policy != "compact"
        {
            let why = format!("has cleanup.policy={policy}, which deletes records by age");
            let failure = to_alter(cluster, name, &why, "cleanup.policy=compact");
            return Err(failure.with_case(Case::StateTopicDeletes));
        }
        let record_bytes = limit.and_then(|limit| limit.parse().ok());
        if let Some(limit) = record_bytes.filter(|limit| *limit < RECORD_BYTES) {
            let why = format!("takes records of {limit} bytes at most, {RECORD_BYTES} are needed");
            let setting = format!("max.message.bytes={RECORD_BYTES}");
            return Err(to_alter(cluster, name, &why, &setting));
        }
        let in_sync = in_sync.and_then(|in_sync| in_sync.parse().ok());
        let settings = TopicSettings { policy: policy.as_deref(), record_bytes, in_sync };
        Ok(cautions(cluster, name, known, &settings))
    }

    /// Why offsets could not be read. librdkafka calls a partition unknown that does not exist, and
    /// also one that has no leader; the topic's metadata lists the second.
    fn offsets_error(
        &self,
        client: &Client<impl ClientContext>,
        error: &KafkaError,
    ) -> RDKafkaErrorCode {
        let error = code_of(error);
        if error != RDKafkaErrorCode::UnknownPartition {
            return error;
        }
        let name = self.name.as_str();
        match client.fetch_metadata(Some(name), Timeout::After(ANSWER_WITHIN)) {
            Ok(metadata) => {
                let mut found = metadata.topics().iter().filter(|topic| topic.name() == name);
                let is_listed = found.any(|topic| !topic.partitions().is_empty());
                if is_listed { RDKafkaErrorCode::LeaderNotAvailable } else { error }
            }
            Err(silent) => code_of(&silent),
        }
    }

    fn failure(&self, error: RDKafkaErrorCode, detail: &str) -> Failure {
        // A topic always has its first partition, so an unknown partition means a missing topic.
        let error = if error == RDKafkaErrorCode::UnknownPartition {
            RDKafkaErrorCode::UnknownTopicOrPartition
        } else {
            error
        };
        let topic = Some(self.name.as_str());
        let failure = self.topic_client.cluster().failure(error, topic, detail);
        if failure.code == Code::KafkaUnreachable && detail.is_empty() {
            // The partition alone may be unavailable (no leader, or too few replicas), so the
            // message names the topic.
            let detail = format!("{error} (state topic {})", self.name);
            return self.topic_client.cluster().failure(error, topic, &detail);
        }
        self.explain(failure)
    }

    fn explain(&self, failure: Failure) -> Failure {
        let replication_factor = replication_factor(&self.settings);
        explain(failure, self.topic_client.cluster(), &self.name, replication_factor)
    }
}

fn replication_factor(settings: &KafkaSettings) -> Option<i32> {
    settings.create_topics.map(|create| create.replication_factor).filter(|factor| *factor > 0)
}

/// Replaces message and remedy where the state topic needs others than a topic of events does.
pub(super) fn explain(
    failure: Failure,
    cluster: &Cluster,
    name: &TopicName,
    replication_factor: Option<i32>,
) -> Failure {
    let of = |case, what: String| cluster.named(Failure::of(case, what), Some(name.as_str()));
    if failure.code == Code::TopicMissing {
        let option = option(replication_factor.map(|factor| cluster.at_most(factor)));
        return failure.with_case(Case::StateTopicMissing).naming(Name::ReplicationOption, option);
    }
    if failure.code == Code::TopicForbidden {
        let what = format!("the state topic {name} may not be read and written");
        return of(Case::StateTopicForbidden, what);
    }
    if failure.code == Code::RecordTooLarge {
        let what = format!(
            "the witness of this pipeline is larger than the state topic {name} takes (its \
             max.message.bytes, or the producer's message.max.bytes): it names every published table"
        );
        return of(Case::StateRecordTooLarge, what).naming(Name::Bytes, LARGE_RECORD_BYTES);
    }
    failure
}

/// What is typed to create the topic as the router does.
pub fn state_topic_command(settings: &KafkaSettings, name: &TopicName) -> Option<String> {
    let missing = Failure::of(Case::StateTopicMissing, "")
        .naming(Name::ReplicationOption, option(replication_factor(settings)));
    let cluster = Cluster::new(&settings.bootstrap_servers);
    hint(&cluster.named(missing, Some(name.as_str())))
}

/// The option of `kafka-topics.sh --create`, with a space before it. Without the option the
/// broker's `default.replication.factor` applies.
fn option(replication_factor: Option<i32>) -> String {
    replication_factor.map(|factor| format!(" --replication-factor {factor}")).unwrap_or_default()
}
