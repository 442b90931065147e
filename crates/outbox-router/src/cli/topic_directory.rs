//! What a command that shows records has to know of their topics. It creates none.

use std::num::NonZeroI32;

use relay::{Code, Failure, TopicFacts, TopicName};

use crate::{
    config::Config,
    kafka::{self, KafkaSettings, KafkaSink, TopicDirectory},
    prepare,
};

/// Asks Kafka about topics. Every question blocks.
pub(super) struct Topics {
    // Dropped before the sink, whose producer it keeps alive.
    directory: TopicDirectory,
    _sink: KafkaSink,
    /// How many partitions `run` gives a topic that it creates.
    created: Option<NonZeroI32>,
}

/// What is known of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Topic {
    /// It exists.
    Exists(TopicFacts),
    /// It does not exist, and `run` would create it.
    ToBeCreated(TopicFacts),
    /// It does not exist, or may not be written to; `run` would wait for a person here.
    Unusable(Failure),
}

/// What a dry run is told of a topic of which nothing is known: no row is refused for its partition.
pub(super) const UNKNOWN: TopicFacts =
    TopicFacts { partitions: NonZeroI32::MAX, max_message_bytes: None };

impl Topics {
    /// Makes the client, by the same settings as `run`.
    ///
    /// # Errors
    /// librdkafka refuses them.
    pub(super) fn open(config: &Config) -> Result<Self, Failure> {
        let configured = prepare::kafka_settings(config);
        let created =
            configured.create_topics.and_then(|create| NonZeroI32::new(create.partitions));
        let settings = KafkaSettings { create_topics: None, ..configured };
        let sink = kafka::open(&settings)?;
        Ok(Self { directory: sink.directory(&settings), _sink: sink, created })
    }

    /// Looks a topic up.
    ///
    /// # Errors
    /// No broker answers, or refuses the credentials.
    pub(super) fn look_up(&self, name: &TopicName) -> Result<Topic, Failure> {
        match (self.directory.look_up(name), self.created) {
            (Ok(found), _) => Ok(Topic::Exists(found.facts)),
            (Err(failure), Some(partitions)) if failure.code == Code::TopicMissing => {
                Ok(Topic::ToBeCreated(TopicFacts { partitions, max_message_bytes: None }))
            }
            (Err(failure), _)
                if matches!(failure.code, Code::TopicMissing | Code::TopicForbidden) =>
            {
                Ok(Topic::Unusable(failure))
            }
            (Err(failure), _) => Err(failure),
        }
    }
}

impl Topic {
    /// How many partitions it has, or would have.
    pub(super) fn partitions(&self) -> Option<NonZeroI32> {
        match self {
            Self::Exists(facts) | Self::ToBeCreated(facts) => Some(facts.partitions),
            Self::Unusable(_) => None,
        }
    }

    /// What a dry run is told of it.
    pub(super) fn facts(&self) -> TopicFacts {
        match self {
            Self::Exists(facts) | Self::ToBeCreated(facts) => *facts,
            Self::Unusable(_) => UNKNOWN,
        }
    }
}
