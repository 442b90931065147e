//! What is on its way to a partition.

use relay::Ticket;

/// A partition of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    /// Place of the topic in [`crate::history::TYPES`].
    pub topic: usize,
    /// The partition.
    pub partition: i32,
}

/// A record on its way.
#[derive(Debug)]
pub struct Pending {
    /// Which event it carries.
    pub event: usize,
    /// Which session produced it.
    pub session: usize,
    pub(super) ticket: Option<Ticket>,
}

/// A batch that a producer which is gone had sent already.
#[derive(Debug)]
pub struct Ghost {
    /// The partition.
    pub lane: Lane,
    /// Its records.
    pub records: Vec<Pending>,
}
