//! The jobs that run beside the streaming task, and what comes of them.

use std::time::Duration;

use relay::{
    Failure, StateRead, TopicId, TopicName,
    source::{Catalog, Server, SlotLook, TimelineHistory},
};
use tokio::task::JoinError;

use super::{
    ports::{Kafka, Postgres, Started},
    state::StateCache,
    topic_refresher::Generation,
};
use crate::kafka::{Found, Seen};

/// What to start.
pub(super) enum Job<K: Kafka> {
    /// A step towards a stream.
    Connect(Step),
    /// Wait until the slot is free.
    WatchSlot,
    /// Destroy the present producer, if there is one, and make another after this wait.
    ReplaceSink(Duration),
    /// The pipeline's records in the state topic.
    ReadState(u64),
    /// The same, unless nobody else has written there.
    LookAtState(u64),
    /// Partitions of one topic.
    LookUpTopic(TopicId, TopicName),
    /// Partitions of all topics in use; with none in use, whether anybody answers.
    LookAtTopics(K::Directory),
}

/// What is asked of PostgreSQL on the way to a stream.
pub(super) enum Step {
    Open,
    Timelines(u32),
    Slot,
    Catalog(Option<Box<Catalog>>),
    Start,
}

/// What came of it.
pub(super) enum Done<P: Postgres, K: Kafka> {
    Opened(Result<(Box<P::Open>, Server), Failure>),
    Timelines(Result<(Box<P::Open>, TimelineHistory), Failure>),
    Slot(Result<(Box<P::Open>, SlotLook), Failure>),
    SlotBeside(Result<SlotLook, Failure>),
    Catalog(Result<(Box<P::Open>, Catalog), Failure>),
    Started(Result<Started, Failure>),
    SlotWatched(Result<(), Failure>),
    SinkOpened(Box<Result<K::Sink, Failure>>),
    StateRead(Generation, u64, Result<(StateCache, StateRead), Failure>),
    StateUntouched(u64),
    Topic(Generation, TopicId, TopicName, Result<Found, Failure>),
    Looked(Generation, Result<Vec<(TopicId, TopicName, Seen)>, Failure>),
    /// Aborted: nobody waits for it any more.
    Nothing,
}

impl<P: Postgres, K: Kafka> Done<P, K> {
    /// # Panics
    /// When the job did: our bug, which must end the process instead of leaving it waiting for
    /// ever.
    pub(super) fn from_join(joined: Result<Self, JoinError>) -> Self {
        match joined {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_cancelled) => Self::Nothing,
            },
        }
    }
}
