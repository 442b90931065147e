//! Reads topics and permissions for a person who asks whether all is well. It creates nothing, and
//! it blocks.

use std::{collections::HashMap, ffi::CStr, sync::Arc};

use rdkafka::util::Timeout;
use relay::{Failure, TopicFacts, TopicName};

use super::{
    errors::Cluster,
    ffi::{ClientError, Events, Operations, Producer, Report, Served, Severity},
    health::{ClientErrors, Health},
    lifecycle::command_client,
    log,
    settings::KafkaSettings,
    state::StateTopic,
    topics::{ANSWER_WITHIN, TopicClient, TopicDescription, code_of},
};

/// A connection to the cluster.
pub struct Inspection {
    topic_client: TopicClient,
    settings: KafkaSettings,
    /// The ids of the brokers that are up.
    pub brokers: Vec<i32>,
}

/// Where a partition's replicas are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionLayout {
    /// Its number.
    pub partition: i32,
    /// Whether a broker leads it.
    pub has_leader: bool,
    /// The brokers that have it.
    pub replicas: Vec<i32>,
}

/// A topic, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicInspected {
    /// What `run` learns of it.
    pub facts: TopicFacts,
    /// What `run` warns of.
    pub caution: Option<Failure>,
    /// Its partitions, in their order.
    pub partitions: Vec<PartitionLayout>,
    /// `cleanup.policy`; `None`: the broker does not say.
    pub policy: Option<String>,
    /// `min.insync.replicas`, likewise.
    pub in_sync: Option<usize>,
}

/// The state topic, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateTopicInspected {
    /// It is missing; `run` creates it.
    Missing,
    /// It keeps the witness; what `run` warns of.
    Suitable(Vec<Failure>),
}

const IN_SYNC: [&CStr; 2] = [c"cleanup.policy", c"min.insync.replicas"];

impl Inspection {
    /// Connects, and waits until a broker answers.
    ///
    /// # Errors
    /// The producer cannot start, or no broker answers: if they refuse the credentials, that.
    pub fn open(settings: &KafkaSettings) -> Result<Self, Failure> {
        let settings = KafkaSettings { create_topics: None, ..settings.clone() };
        let (producer, cluster) = command_client(&settings)?;
        let brokers = brokers(&producer, &cluster)?;
        let topic_client = TopicClient::new(producer, cluster, &settings);
        Ok(Self { topic_client, settings, brokers })
    }

    /// The names of all topics that the principal may see.
    ///
    /// # Errors
    /// No broker answers.
    pub fn names(&self) -> Result<Vec<TopicName>, Failure> {
        self.topic_client.names()
    }

    /// Describes a topic.
    ///
    /// # Errors
    /// The topic is missing or forbidden, or no broker answers.
    pub fn topic(&self, name: &TopicName) -> Result<TopicInspected, Failure> {
        let TopicDescription { facts, caution, .. } = self.topic_client.look_up(name)?;
        let [policy, in_sync] = self.topic_client.settings(name, IN_SYNC, self.broker())?;
        let partitions = self.layout(name)?;
        let in_sync = in_sync.and_then(|in_sync| in_sync.parse().ok());
        Ok(TopicInspected { facts, caution, partitions, policy, in_sync })
    }

    /// Checks the state topic.
    ///
    /// # Errors
    /// `run` refuses it, or no broker answers.
    pub fn state_topic(&self, name: &TopicName) -> Result<StateTopicInspected, Failure> {
        let (producer, cluster) = (self.topic_client.producer(), self.topic_client.cluster());
        let topic =
            StateTopic::new(Arc::clone(producer), cluster.clone(), &self.settings, name.clone());
        match topic.inspect()? {
            None => Ok(StateTopicInspected::Missing),
            Some(cautions) => Ok(StateTopicInspected::Suitable(cautions)),
        }
    }

    /// What the principal may do with each topic, by name, as far as the broker reports it.
    pub fn topic_operations(&self, names: &[TopicName]) -> HashMap<String, Operations> {
        let producer = self.topic_client.producer();
        producer.topic_operations(names, self.broker(), ANSWER_WITHIN).unwrap_or_else(|error| {
            tracing::debug!(code = %error.code, "no operations of topics: {}", error.text);
            HashMap::new()
        })
    }

    /// What the principal may do with the cluster, if the broker reports it.
    pub fn cluster_operations(&self) -> Option<Operations> {
        let asked = self.topic_client.producer().cluster_operations(self.broker(), ANSWER_WITHIN);
        asked.unwrap_or_else(|error| {
            tracing::debug!(code = %error.code, "no operations of the cluster: {}", error.text);
            None
        })
    }

    /// Adds the names that remedies for Kafka contain.
    pub fn named(&self, failure: Failure, topic: Option<&str>) -> Failure {
        self.topic_client.cluster().named(failure, topic)
    }

    fn broker(&self) -> i32 {
        self.brokers.first().copied().unwrap_or(-1)
    }

    /// Where the replicas of a topic's partitions are, in the order of the partitions.
    ///
    /// # Errors
    /// No broker answers.
    pub fn layout(&self, name: &TopicName) -> Result<Vec<PartitionLayout>, Failure> {
        let (producer, cluster) = (self.topic_client.producer(), self.topic_client.cluster());
        let metadata = producer
            .client()
            .fetch_metadata(Some(name.as_str()), Timeout::After(ANSWER_WITHIN))
            .map_err(|error| cluster.failure(code_of(&error), Some(name.as_str()), ""))?;
        let topic = metadata.topics().iter().find(|topic| topic.name() == name.as_str());
        let layout = |partition: &rdkafka::metadata::MetadataPartition| PartitionLayout {
            partition: partition.id(),
            has_leader: partition.leader() >= 0,
            replicas: partition.replicas().to_vec(),
        };
        let mut partitions: Vec<PartitionLayout> =
            topic.into_iter().flat_map(|topic| topic.partitions().iter().map(layout)).collect();
        partitions.sort_by_key(|one| one.partition);
        Ok(partitions)
    }
}

fn brokers(producer: &Producer, cluster: &Cluster) -> Result<Vec<i32>, Failure> {
    let asked = producer.client().fetch_metadata(None, Timeout::After(ANSWER_WITHIN));
    let metadata = asked.map_err(|error| {
        let mut heard = Heard { cluster, client_errors: ClientErrors::default() };
        while producer.serve(&mut heard) == Served::One {}
        heard.client_errors.unanswered(cluster.failure(code_of(&error), None, ""));
        match heard.client_errors.health() {
            Health::Down(reason) => reason.clone(),
            Health::Well | Health::Suspect => cluster.failure(code_of(&error), None, ""),
        }
    })?;
    cluster.has_brokers(metadata.brokers().len());
    let mut brokers: Vec<i32> = metadata.brokers().iter().map(|broker| broker.id()).collect();
    brokers.sort_unstable();
    Ok(brokers)
}

/// Why no broker answers: refused credentials are told by an event, and the request only times out.
struct Heard<'c> {
    cluster: &'c Cluster,
    client_errors: ClientErrors,
}

impl Events for Heard<'_> {
    fn report(&mut self, _report: Report) {}

    fn client_error(&mut self, error: ClientError) {
        if error.severity == Severity::Transient {
            let failure = self.cluster.failure(error.code, None, &error.text);
            self.client_errors.add(error.code, failure);
        }
    }

    fn log(&mut self, level: i32, facility: &str, text: &str) {
        log::write(level, facility, text);
    }
}
