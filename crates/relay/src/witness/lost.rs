//! What a record says of topics: which ones were produced to, by their ids, and which are lost.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    failure::{Case, Code, Failure, Name},
    source::Mark,
};

/// The id of a topic, in the text that Kafka's tools show. A topic that is made again under the
/// same name has another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TopicUuid(Box<str>);

/// The topics that a command has produced to, by name, with the ids that they had before their
/// first records.
pub type ProducedTo = BTreeMap<String, TopicUuid>;

impl TopicUuid {
    /// The id with this text.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What Kafka has under a topic's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicSight {
    /// A topic with this id.
    Is(TopicUuid),
    /// No topic.
    Missing,
    /// The brokers answer, and do not say it: they know no ids, or this client may not ask.
    Untold,
}

/// What the witness knows of a topic that the pipeline has produced to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTopic {
    /// Its id; `None` while it is missing, which a [`LostTopic`] has noted.
    pub uuid: Option<TopicUuid>,
    /// How often that has changed. Of two records of one generation the one with more changes
    /// counts, also where both have the same position.
    pub changes: u32,
}

/// A topic that was deleted after this pipeline had produced to it, until a person has accepted
/// that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostTopic {
    /// Its name.
    pub topic: String,
    /// The id of the one that is gone.
    pub was: TopicUuid,
    /// The id of the one that took its place; `None`: there is none yet.
    pub now: Option<TopicUuid>,
    /// The witness's position when it was noticed, and the server's clock at the last reading
    /// before. No two notes of a pipeline have the same position.
    pub noticed: Mark,
}

/// How many lost topics a record keeps. Where there are more, the others are noted when room was
/// made by an acceptance: they are looked at again and again.
pub(super) const LOST_MAX: usize = 20;

impl LostTopic {
    /// The finding.
    pub fn finding(&self) -> Failure {
        let Self { topic, was, now, noticed } = self;
        let was = was.as_str();
        let failure = match now {
            Some(now) => Failure::new(
                Code::TopicLost,
                format!(
                    "topic {topic} was deleted and made again (its id was {was} and is {}; noticed \
                     at {noticed}): the records that it had are gone",
                    now.as_str()
                ),
            ),
            None => Failure::of(
                Case::TopicGone,
                format!(
                    "topic {topic}, to which this pipeline has produced, does not exist any more \
                     (its id was {was}; noticed at {noticed}): the records that it had are gone"
                ),
            ),
        };
        failure.naming(Name::Topic, topic)
    }

    /// How a person names it: `CODE@LSN`.
    pub fn name(&self) -> String {
        format!("{}@{}", Code::TopicLost, self.noticed.lsn)
    }

    pub(super) fn is_of(&self, topic: &str, was: &TopicUuid) -> bool {
        self.topic == topic && self.was == *was
    }
}
