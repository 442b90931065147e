//! The jobs that run beside the streaming task, and their results.

use std::time::Duration;

use relay::{
    BacklogFrom, Failure, StateTopicRead, TopicId, TopicName,
    held::{HeldAnswer, HeldRequest},
    source::{Catalog, Server, SlotReading, TimelineHistory},
    witness::TopicSight,
};
use tokio::task::JoinError;

use super::{
    ports::{Kafka, Postgres, Started},
    state_topic::StateTopicCache,
    topic_refresher::ProducerNumber,
};
use crate::kafka::{TopicDescription, TopicReading};

/// A job to start.
pub(super) enum Job<K: Kafka> {
    /// A step towards a stream.
    Connect(ConnectStep),
    /// Wait until the slot is free.
    WatchSlot,
    /// Destroy the present producer, if there is one, and make a new one after this wait.
    ReplaceSink(Duration),
    /// Read the pipeline's records in the state topic. The number is the core's, and comes back
    /// with the answer.
    ReadStateTopic(u64),
    /// The same, but only if another process has written to the topic.
    CheckStateTopic(u64),
    /// Do this with the table of held events. The number is the core's, and comes back with the
    /// answer.
    Held(u64, HeldRequest),
    /// Look up one topic.
    LookUpTopic(TopicId, TopicName),
    /// Read the partition counts of all topics in use; with none in use, ask whether a broker
    /// answers. Then ask for the other topics that the pipeline has produced to.
    RefreshTopics(K::TopicClient),
}

/// A step from connecting to a stream; `ports::Postgres` describes each.
pub(super) enum ConnectStep {
    Connect,
    Timelines(u32),
    Slot,
    Catalog(Option<Box<Catalog>>),
    Start(BacklogFrom),
}

/// The topics in use, and those that only the witness names.
pub(super) struct TopicsRead {
    pub(super) in_use: Vec<(TopicId, TopicName, TopicReading)>,
    pub(super) others: Vec<(TopicName, TopicSight)>,
}

/// The result of a job.
pub(super) enum Done<P: Postgres, K: Kafka> {
    Connected(Result<(Box<P::Connection>, Server), Failure>),
    Timelines(Result<(Box<P::Connection>, TimelineHistory), Failure>),
    Slot(Result<(Box<P::Connection>, SlotReading), Failure>),
    SlotBeside(Result<SlotReading, Failure>),
    Catalog(Result<(Box<P::Connection>, Catalog), Failure>),
    Started(Result<Started, Failure>),
    SlotWatched(Result<(), Failure>),
    SinkOpened(Box<Result<K::Sink, Failure>>),
    StateTopicRead(ProducerNumber, u64, Result<(StateTopicCache, StateTopicRead), Failure>),
    StateTopicUnchanged(u64),
    /// With the table, for the next request.
    Held(Box<P::HeldTable>, u64, Result<HeldAnswer, Failure>),
    Topic(ProducerNumber, TopicId, TopicName, Result<TopicDescription, Failure>),
    TopicsRead(ProducerNumber, Result<TopicsRead, Failure>),
    /// The job was aborted, so its result is not wanted.
    Aborted,
}

impl<P: Postgres, K: Kafka> Done<P, K> {
    /// # Panics
    /// When the job panicked. That is a bug, and must end the process instead of leaving it waiting
    /// for ever.
    pub(super) fn from_join(joined: Result<Self, JoinError>) -> Self {
        match joined {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_cancelled) => Done::Aborted,
            },
        }
    }
}
