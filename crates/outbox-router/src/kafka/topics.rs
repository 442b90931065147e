//! Looks topics up, and creates them only where the configuration says so. A topic is looked up
//! before its first record, so that nothing is produced to a topic that may not exist
//! (`enable.gapless.guarantee` does not cover that case). All of it blocks.

use std::{ffi::CStr, num::NonZeroI32, sync::Arc, thread, time::Duration};

use rdkafka::{
    error::KafkaError, metadata::MetadataBroker, types::RDKafkaErrorCode, util::Timeout,
};
use relay::{
    Code, Failure, Name, Timestamp, TopicFacts, TopicName,
    witness::{TopicSight, TopicUuid},
};

use super::{
    bound::TopicLimits,
    errors::Cluster,
    ffi::{AdminError, NewTopic, Producer, answering},
    settings::{KafkaSettings, TopicCreation},
    timestamps::{self, Keeps},
};

/// Whether a topic in use still exists, and with how many partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicLookup {
    /// It exists, and has so many partitions.
    Partitions(NonZeroI32),
    /// It is no longer there.
    Gone,
    /// The brokers do not answer the question, or not now.
    Unclear,
}

/// The result of looking a topic up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDescription {
    /// What the core needs to produce to it.
    pub facts: TopicFacts,
    /// Its id, where the broker reports one.
    pub uuid: Option<TopicUuid>,
    /// For how long it keeps records.
    pub keeps: Keeps,
    /// A warning to log: the topic may refuse delayed records.
    pub caution: Option<Failure>,
}

impl TopicDescription {
    /// What the sink needs to produce to it.
    pub fn limits(&self) -> TopicLimits {
        TopicLimits { max_message_bytes: self.facts.max_message_bytes, keeps: self.keeps }
    }
}

/// What a topic deletes, as far as the broker reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retention {
    /// Whether only the last record of each key stays.
    pub is_compacted: bool,
    /// `retention.ms` where records are deleted by age.
    pub millis: Option<i64>,
    /// `retention.bytes` where records are deleted by size.
    pub bytes: Option<i64>,
}

/// A topic in use, as it was read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicReading {
    /// Whether it is there.
    pub lookup: TopicLookup,
    /// Its id, where the broker reports one.
    pub uuid: Option<TopicUuid>,
}

/// Asks the cluster about topics through the sink's own client, from any thread, while the sink is
/// in use. It keeps the producer alive, so it has to be dropped before the sink is closed.
#[derive(Clone)]
pub struct TopicClient {
    producer: Arc<Producer>,
    cluster: Cluster,
    create: Option<TopicCreation>,
    timestamp: Timestamp,
}

const MISSING: RDKafkaErrorCode = RDKafkaErrorCode::UnknownTopicOrPartition;

/// How long one request may take, including finding a broker and connecting to it.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How many topics one request describes. librdkafka searches the requested topics linearly for
/// each topic of the answer.
const DESCRIBED_AT_ONCE: usize = 1_000;

/// A new topic takes some 100 ms to be known to every broker.
const APPEARS_AFTER: Duration = Duration::from_millis(100);
const APPEARS_TRIES: u32 = 100;

impl TopicClient {
    /// The client of the cluster that `producer` produces to.
    pub(super) fn new(producer: Arc<Producer>, cluster: Cluster, settings: &KafkaSettings) -> Self {
        let (create, timestamp) = (settings.create_topics, settings.timestamp);
        Self { producer, cluster, create, timestamp }
    }

    /// A client that creates no topics for events and checks no timestamps.
    pub(super) fn of(producer: Arc<Producer>, cluster: Cluster) -> Self {
        Self { producer, cluster, create: None, timestamp: Timestamp::Now }
    }

    pub(super) fn producer(&self) -> &Arc<Producer> {
        &self.producer
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Looks a topic up, and creates it where it is missing and the configuration says how.
    ///
    /// # Errors
    /// The topic is missing and was not created, or is forbidden, or no broker answered; the
    /// [`Failure`]'s code says which.
    pub fn look_up(&self, name: &TopicName) -> Result<TopicDescription, Failure> {
        let known = match (self.metadata(name), self.create) {
            (Err(MetadataError::Missing(_)), Some(create)) => self.create(name, create)?,
            (known, _) => known.map_err(Failure::from)?,
        };
        let [a, b, c, d, e, f] = timestamps::SETTINGS;
        let [limit, a, b, c, d, e, f] =
            self.settings(name, [c"max.message.bytes", a, b, c, d, e, f], known.broker)?;
        let max_message_bytes = limit.and_then(|limit| limit.parse().ok());
        let times = [a, b, c, d, e, f];
        let keeps = Keeps::by(&times);
        let caution = match self.timestamp {
            Timestamp::Commit | Timestamp::Column => {
                timestamps::caution(&self.cluster, name, &times)
            }
            Timestamp::Now => None,
        };
        let facts = TopicFacts { partitions: known.partitions, max_message_bytes };
        let sight = self.sights_by(Some(known.broker), &[name]).pop().flatten();
        Ok(TopicDescription { facts, uuid: sight.and_then(uuid_of), keeps, caution })
    }

    /// What a topic deletes.
    ///
    /// # Errors
    /// The topic is missing or forbidden, or no broker answers.
    pub fn retention(&self, name: &TopicName) -> Result<Retention, Failure> {
        let known = self.metadata(name)?;
        let settings = [c"cleanup.policy", c"retention.ms", c"retention.bytes"];
        let [policy, millis, bytes] = self.settings(name, settings, known.broker)?;
        let policy = policy.unwrap_or_default();
        // Below zero means no limit.
        let limit = |value: Option<String>| value?.parse().ok().filter(|limit: &i64| *limit >= 0);
        let deletes = policy.contains("delete");
        Ok(Retention {
            is_compacted: policy.contains("compact"),
            millis: limit(millis).filter(|_| deletes),
            bytes: limit(bytes).filter(|_| deletes),
        })
    }

    /// The names of all topics that the client may describe.
    ///
    /// # Errors
    /// No broker answers.
    pub fn names(&self) -> Result<Vec<TopicName>, Failure> {
        let metadata = self
            .producer
            .client()
            .fetch_metadata(None, Timeout::After(ANSWER_WITHIN))
            .map_err(|error| self.cluster.failure(code_of(&error), None, ""))?;
        let names = metadata.topics().iter().map(|topic| TopicName::new(topic.name()));
        // Every name that the broker has is legal.
        Ok(names.filter_map(Result::ok).collect())
    }

    /// Reads the topics in use, in the order of `names`. One request covers all of them: they are
    /// bound, and librdkafka asks for all topics that it has handles of. A second request, for
    /// their ids, may fail without harm.
    ///
    /// # Errors
    /// No broker answered.
    pub fn read_topics(&self, names: &[TopicName]) -> Result<Vec<TopicReading>, Failure> {
        let known = self
            .producer
            .known_topics(ANSWER_WITHIN)
            .map_err(|error| self.cluster.failure(error, None, ""))?;
        let lookup = |name: &TopicName| match known.topics.get(name.as_str()) {
            Some(Ok(partitions)) => {
                NonZeroI32::new(*partitions).map_or(TopicLookup::Gone, TopicLookup::Partitions)
            }
            Some(Err(error)) => {
                let failure = self.cluster.failure(*error, Some(name.as_str()), "");
                if failure.code == Code::TopicMissing {
                    TopicLookup::Gone
                } else {
                    TopicLookup::Unclear
                }
            }
            None => TopicLookup::Unclear,
        };
        let lookups: Vec<TopicLookup> = names.iter().map(lookup).collect();
        let there: Vec<&TopicName> = names
            .iter()
            .zip(&lookups)
            .filter_map(|(name, lookup)| {
                matches!(lookup, TopicLookup::Partitions(_)).then_some(name)
            })
            .collect();
        let mut uuids = self.sights_by(Some(known.broker), &there).into_iter();
        let reading = |lookup| match lookup {
            TopicLookup::Partitions(_) => {
                TopicReading { lookup, uuid: uuids.next().flatten().and_then(uuid_of) }
            }
            TopicLookup::Gone | TopicLookup::Unclear => TopicReading { lookup, uuid: None },
        };
        Ok(lookups.into_iter().map(reading).collect())
    }

    /// What there is under these names, as far as a broker says it; shorter than `names` after an
    /// error.
    pub fn sights(&self, names: &[&TopicName]) -> Vec<Option<TopicSight>> {
        self.sights_by(None, names)
    }

    fn sights_by(&self, broker: Option<i32>, names: &[&TopicName]) -> Vec<Option<TopicSight>> {
        let mut sights = Vec::with_capacity(names.len());
        for names in names.chunks(DESCRIBED_AT_ONCE) {
            match self.producer.topic_sights(names, broker, ANSWER_WITHIN) {
                Ok(found) => sights.extend(found),
                Err(error) => {
                    tracing::debug!(code = %error.code, "no ids of topics: {}", error.text);
                    break;
                }
            }
        }
        sights
    }

    /// Whether any broker answers, for when no topic is in use yet.
    ///
    /// # Errors
    /// No broker answers.
    pub fn ping(&self) -> Result<(), Failure> {
        self.producer
            .client()
            .fetch_metadata(None, Timeout::After(ANSWER_WITHIN))
            .map(drop)
            .map_err(|error| self.cluster.failure(code_of(&error), None, ""))
    }

    pub(super) fn metadata(&self, name: &TopicName) -> Result<TopicMetadata, MetadataError> {
        let unknown = |code, detail: &str| {
            let failure = self.cluster.failure(code, Some(name.as_str()), detail);
            if failure.code == Code::TopicMissing {
                MetadataError::Missing(failure)
            } else {
                MetadataError::Other(failure)
            }
        };
        let metadata = self
            .producer
            .client()
            .fetch_metadata(Some(name.as_str()), Timeout::After(ANSWER_WITHIN))
            .map_err(|error| unknown(code_of(&error), ""))?;
        self.cluster.has_brokers(metadata.brokers().len());
        let Some(topic) = metadata.topics().iter().find(|topic| topic.name() == name.as_str())
        else {
            return Err(unknown(MISSING, ""));
        };
        match topic.error().map(RDKafkaErrorCode::from) {
            // Partitions without a leader count. A topic that is being created has no partitions
            // yet.
            None | Some(RDKafkaErrorCode::LeaderNotAvailable) => {}
            Some(error) => return Err(unknown(error, "")),
        }
        let Some(partitions) =
            i32::try_from(topic.partitions().len()).ok().and_then(NonZeroI32::new)
        else {
            return Err(unknown(MISSING, "it has no partitions yet"));
        };
        let brokers: Vec<i32> = metadata.brokers().iter().map(MetadataBroker::id).collect();
        let broker = answering(metadata.orig_broker_id(), brokers.iter().copied());
        let replicas = topic.partitions().first().map(|first| first.replicas().to_vec());
        Ok(TopicMetadata { partitions, broker, replicas: replicas.unwrap_or_default(), brokers })
    }

    fn create(&self, name: &TopicName, create: TopicCreation) -> Result<TopicMetadata, Failure> {
        let TopicCreation { partitions, replication_factor } = create;
        self.make(&NewTopic { name, partitions, replication_factor, settings: &[] })
            .map_err(|error| self.not_made(name, &error))?;
        self.await_topic(name)
    }

    /// Creates a topic. A topic that exists already is a success.
    pub(super) fn make(&self, topic: &NewTopic<'_>) -> Result<(), AdminError> {
        let NewTopic { name, partitions, replication_factor, .. } = topic;
        match self.producer.create_topic(topic, ANSWER_WITHIN) {
            Ok(()) => {
                tracing::info!(topic = %name, partitions, replication_factor, "created topic");
            }
            // Another client has created it meanwhile.
            Err(error) if error.code == RDKafkaErrorCode::TopicAlreadyExists => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Waits until the brokers know a topic that was just created.
    pub(super) fn await_topic(&self, name: &TopicName) -> Result<TopicMetadata, Failure> {
        for _ in 1..APPEARS_TRIES {
            match self.metadata(name) {
                Ok(known) => return Ok(known),
                Err(MetadataError::Missing(_)) => thread::sleep(APPEARS_AFTER),
                Err(MetadataError::Other(failure)) => return Err(failure),
            }
        }
        self.metadata(name).map_err(Failure::from)
    }

    /// The failure when a topic could not be created: that no topic may have this name, that Kafka
    /// is unreachable, or else that the topic is missing, with the broker's reason.
    fn not_made(&self, name: &TopicName, error: &AdminError) -> Failure {
        // Of two names that differ in '.' and '_' alone, Kafka takes the first.
        if error.code == RDKafkaErrorCode::InvalidTopic {
            let what = format!("topic {name} cannot be created: {}", error.text);
            return Failure::new(Code::TopicIllegal, what).naming(Name::Topic, name);
        }
        let failure = self.cluster.failure(error.code, Some(name.as_str()), &error.text);
        if failure.code == Code::KafkaUnreachable {
            return failure;
        }
        let reason = format!("it cannot be created as kafka.create_topics says: {}", error.text);
        self.cluster.failure(MISSING, Some(name.as_str()), &reason)
    }

    /// Settings of a topic, as far as the broker reports them. A refusal (no permission, or a
    /// broker without this request) gives `None` for each setting; no answer is an error.
    pub(super) fn settings<const N: usize>(
        &self,
        name: &TopicName,
        settings: [&CStr; N],
        broker: i32,
    ) -> Result<[Option<String>; N], Failure> {
        for _ in 0..APPEARS_TRIES {
            let error = match self.producer.topic_settings(name, settings, broker, ANSWER_WITHIN) {
                Ok(settings) => return Ok(settings),
                Err(error) => error,
            };
            // The metadata contains the topic, so the topic is new, and this part of the broker
            // does not know it yet.
            if error.code == MISSING {
                thread::sleep(APPEARS_AFTER);
                continue;
            }
            let failure = self.cluster.failure(error.code, Some(name.as_str()), &error.text);
            if failure.code == Code::KafkaUnreachable {
                return Err(failure);
            }
            tracing::debug!(topic = %name, "the broker does not report settings: {failure:#}");
            return Ok([const { None }; N]);
        }
        Err(self.cluster.failure(MISSING, Some(name.as_str()), "its settings are not known"))
    }
}

fn uuid_of(sight: TopicSight) -> Option<TopicUuid> {
    match sight {
        TopicSight::Is(uuid) => Some(uuid),
        TopicSight::Missing | TopicSight::Untold => None,
    }
}

/// What the metadata says about a topic, and which broker gave it.
pub(super) struct TopicMetadata {
    pub(super) partitions: NonZeroI32,
    pub(super) broker: i32,
    /// The ids of the brokers with a replica of the first partition.
    pub(super) replicas: Vec<i32>,
    /// The ids of all brokers of the cluster that are up.
    pub(super) brokers: Vec<i32>,
}

/// Why a topic's partitions are not known.
pub(super) enum MetadataError {
    Missing(Failure),
    Other(Failure),
}

impl From<MetadataError> for Failure {
    fn from(unknown: MetadataError) -> Self {
        match unknown {
            MetadataError::Missing(failure) | MetadataError::Other(failure) => failure,
        }
    }
}

pub(super) fn code_of(error: &KafkaError) -> RDKafkaErrorCode {
    error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)
}
