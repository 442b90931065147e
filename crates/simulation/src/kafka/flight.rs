//! Records that were sent and are not stored yet.

use relay::Ticket;

/// A partition of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicPartition {
    /// Index of the topic in [`crate::history::TYPES`].
    pub topic: usize,
    /// The partition.
    pub partition: i32,
}

/// A record on its way.
#[derive(Debug)]
pub struct PendingRecord {
    /// Index of the event that it carries.
    pub event: usize,
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
