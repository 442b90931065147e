//! Records that were sent and are not stored yet.

use relay::{Ticket, held::EventId};

/// A partition of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicPartition {
    /// Index of the topic in [`super::SimulatedKafka::topics`].
    pub topic: usize,
    /// The partition.
    pub partition: i32,
}

/// What a record carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// The event with this index.
    Event(usize),
    /// A dead letter: what it is known by, and the index of its event if that is found.
    Letter(EventId, Option<usize>),
}

impl Carried {
    /// The index of the event.
    pub fn event(self) -> Option<usize> {
        match self {
            Self::Event(number) => Some(number),
            Self::Letter(..) => None,
        }
    }
}

/// A record on its way.
#[derive(Debug)]
pub struct PendingRecord {
    /// What it carries.
    pub carries: Carried,
    /// Number of the session that produced it.
    pub session: usize,
    pub(super) ticket: Option<Ticket>,
}

/// A batch that a producer had sent before it was closed.
#[derive(Debug)]
pub struct LateBatch {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// Its records.
    pub records: Vec<PendingRecord>,
}
