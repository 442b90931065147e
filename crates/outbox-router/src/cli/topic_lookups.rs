//! What a command that shows records has to know of their topics. It creates none.

use std::{fmt, num::NonZeroI32};

use relay::{Code, Failure, TopicFacts, TopicName};

use crate::{
    config::{Config, CreateTopics},
    kafka::{self, KafkaSettings, KafkaSink, Retention, TopicClient},
    prepare,
    republish::sender::UNKNOWN,
};

/// Looks topics up in Kafka, by the calling thread, which waits for the answer.
pub(super) struct TopicLookups {
    // Dropped before the sink, whose producer it keeps alive.
    client: TopicClient,
    _sink: KafkaSink,
    /// `None`: `run` creates no topic.
    created: Option<NewTopic>,
}

/// How many partitions `run` gives a topic that it creates. `None`: the broker decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewTopic(Option<NonZeroI32>);

impl From<CreateTopics> for NewTopic {
    fn from(configured: CreateTopics) -> Self {
        Self(NonZeroI32::new(configured.partitions).filter(|count| count.is_positive()))
    }
}

impl fmt::Display for NewTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(count) => write!(f, "with {count} partitions"),
            None => f.write_str("with the broker's num.partitions"),
        }
    }
}

/// What is known of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Topic {
    /// It exists.
    Exists(TopicFacts),
    /// It does not exist, and `run` would create it.
    ToBeCreated(NewTopic),
    /// It does not exist, or may not be written to; `run` would wait for a person here.
    Unusable(Failure),
}

impl TopicLookups {
    /// Makes the client, by the same settings as `run`.
    ///
    /// # Errors
    /// librdkafka refuses them.
    pub(super) fn open(config: &Config) -> Result<Self, Failure> {
        let created = config.kafka.create_topics.map(NewTopic::from);
        let settings = KafkaSettings { create_topics: None, ..prepare::kafka_settings(config) };
        let sink = kafka::open(&settings)?;
        Ok(Self { client: sink.topic_client(&settings), _sink: sink, created })
    }

    /// Looks a topic up.
    ///
    /// # Errors
    /// No broker answers, or refuses the credentials.
    pub(super) fn look_up(&self, name: &TopicName) -> Result<Topic, Failure> {
        match (self.client.look_up(name), self.created) {
            (Ok(found), _) => Ok(Topic::Exists(found.facts)),
            (Err(failure), Some(new)) if failure.code == Code::TopicMissing => {
                Ok(Topic::ToBeCreated(new))
            }
            (Err(failure), _)
                if matches!(failure.code, Code::TopicMissing | Code::TopicForbidden) =>
            {
                Ok(Topic::Unusable(failure))
            }
            (Err(failure), _) => Err(failure),
        }
    }

    /// What a topic deletes.
    ///
    /// # Errors
    /// As [`TopicClient::retention`].
    pub(super) fn retention(&self, name: &TopicName) -> Result<Retention, Failure> {
        self.client.retention(name)
    }

    /// The names of all topics.
    ///
    /// # Errors
    /// No broker answers.
    pub(super) fn names(&self) -> Result<Vec<TopicName>, Failure> {
        self.client.names()
    }
}

impl Topic {
    /// How many partitions it has, or would have, as far as this is known.
    pub(super) fn partitions(&self) -> Option<NonZeroI32> {
        match self {
            Self::Exists(facts) => Some(facts.partitions),
            Self::ToBeCreated(NewTopic(count)) => *count,
            Self::Unusable(_) => None,
        }
    }

    /// What a dry run is told of it.
    pub(super) fn facts(&self) -> TopicFacts {
        match self {
            Self::Exists(facts) => *facts,
            Self::ToBeCreated(NewTopic(Some(partitions))) => {
                TopicFacts { partitions: *partitions, max_message_bytes: None }
            }
            Self::ToBeCreated(NewTopic(None)) | Self::Unusable(_) => UNKNOWN,
        }
    }
}
