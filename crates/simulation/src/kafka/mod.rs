//! A Kafka cluster: topics whose partitions may have no leader, and the batches on their way to
//! them.

use relay::Code;

use crate::history::TYPES;

mod flight;
mod letter;
pub mod partition;
mod producer;
mod state;

pub use flight::{Carried, LateBatch, PendingRecord, TopicPartition};
pub use letter::ProducedLetter;
pub use producer::{FailedWrite, ProducedRecord, SimulatedProducer};
pub use state::SimulatedStateTopic;

/// The topic of dead letters.
pub const LETTERS: &str = "outbox.dead-letters";
/// Its index, where it is used.
pub const LETTERS_INDEX: usize = TYPES.len();

/// A topic.
#[derive(Debug, Clone)]
pub struct SimulatedTopic {
    /// Its name.
    pub name: String,
    /// None while the topic is deleted.
    pub partitions: Option<i32>,
    /// The partition counts since the topic was last created: a producer may still use an earlier
    /// one.
    pub counts: Vec<i32>,
    /// The fewest partitions that the topic was re-created with, if it was: a router that read its
    /// metadata then may still use that count.
    pub fewest: Option<i32>,
    /// Partitions without a leader, as a bit mask.
    pub leaderless: u64,
    /// Its `max.message.bytes`.
    pub limit: Option<usize>,
    /// What that is when no fault has lowered it.
    pub usual_limit: Option<usize>,
    /// Whether it was ever lowered.
    pub was_lowered: bool,
    /// Whether metadata reports that the topic does not exist.
    pub is_hidden: bool,
}

impl SimulatedTopic {
    fn new(name: String, partitions: i32) -> Self {
        Self {
            name,
            partitions: Some(partitions),
            counts: vec![partitions],
            fewest: None,
            leaderless: 0,
            is_hidden: false,
            limit: None,
            usual_limit: None,
            was_lowered: false,
        }
    }
}

/// See the module's documentation.
pub struct SimulatedKafka {
    /// In the order of [`TYPES`], and the topic of dead letters behind them, if it is used.
    pub topics: Vec<SimulatedTopic>,
    /// Whether any broker answers.
    pub is_up: bool,
    /// Whether acknowledgements get through.
    pub acks_pass: bool,
    /// Batches of producers that were closed.
    pub late_batches: Vec<LateBatch>,
    /// Whether every producer fails with a fatal error.
    pub fails_producers: bool,
    /// The error code by which the next batch is refused.
    pub rejects: Option<Code>,
    /// The error code by which the topic of dead letters refuses every batch, while it does.
    pub refuses_letters: Option<Code>,
    /// Whether the next batch is stored twice.
    pub stores_twice: bool,
    /// How often the brokers' addresses were led to another cluster.
    pub clusters: u64,
    /// The state topic.
    pub state: SimulatedStateTopic,
}

impl SimulatedKafka {
    /// A cluster in which every topic exists.
    pub fn new(partitions: i32) -> Self {
        let topic = |name: &&str| SimulatedTopic::new(format!("outbox.event.{name}"), partitions);
        Self {
            topics: TYPES.iter().map(topic).collect(),
            is_up: true,
            acks_pass: true,
            late_batches: Vec::new(),
            fails_producers: false,
            rejects: None,
            refuses_letters: None,
            stores_twice: false,
            clusters: 0,
            state: SimulatedStateTopic::default(),
        }
    }

    /// From now on there is a topic of dead letters.
    pub fn create_letters_topic(&mut self, partitions: i32) {
        self.topics.push(SimulatedTopic::new(LETTERS.to_owned(), partitions));
    }

    /// Its cluster id.
    pub fn cluster(&self) -> String {
        format!("cluster {}", self.clusters)
    }

    /// Whether the state topic's broker answers; the topic may still be deleted.
    pub fn is_state_topic_available(&self) -> bool {
        self.is_up && !self.state.is_leaderless
    }

    /// Whether a partition takes records now: the cluster is up, and the partition has a leader.
    pub fn takes(&self, topic_partition: TopicPartition) -> bool {
        self.is_up
            && self.topics[topic_partition.topic].leaderless & (1 << topic_partition.partition) == 0
    }

    /// From now on no topic takes a record of more bytes.
    pub fn limit_topics(&mut self, limit: usize) {
        for topic in &mut self.topics {
            (topic.limit, topic.usual_limit) = (Some(limit), Some(limit));
        }
    }

    /// Whether a partition exists.
    pub fn has(&self, topic_partition: TopicPartition) -> bool {
        self.topics[topic_partition.topic]
            .partitions
            .is_some_and(|count| topic_partition.partition < count)
    }

    /// Ends every fault.
    pub fn heal(&mut self) {
        self.is_up = true;
        self.acks_pass = true;
        self.fails_producers = false;
        self.rejects = None;
        self.refuses_letters = None;
        self.stores_twice = false;
        self.state.is_leaderless = false;
        self.state.is_deleted = false;
        for topic in &mut self.topics {
            topic.leaderless = 0;
            topic.is_hidden = false;
            topic.limit = topic.usual_limit;
            if topic.partitions.is_none() {
                topic.partitions = topic.counts.last().copied();
            }
        }
    }
}
