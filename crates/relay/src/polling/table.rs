//! One polled table: what is known of it, and when it is read next.

use super::{protocol::WaitsKept, waits::Waits};
use crate::{
    clock::Moment,
    failure::Failure,
    routing::{record::TopicId, table::TableName},
};

/// See the module's header.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: TableName,
    pub(super) description: Description,
    /// When to read it next.
    pub(super) fetch_at: Moment,
    /// Whether a NOTIFY has arrived since it was read last.
    pub(super) news: News,
    pub(super) waits: Waits,
    /// The topic that its next row waits for. It stays while the row is read again and again.
    pub(super) awaited: Option<TopicId>,
    /// Why none of its rows can be produced.
    pub(super) failure: Option<Failure>,
    pub(super) totals: TableTotals,
}

/// Whether the core knows what the table looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Description {
    /// Not yet, or not any more; when to ask.
    Unknown(Moment),
    /// Since then.
    Known(WaitsKept, Moment),
}

/// Whether a table may have rows that its last reading did not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Some,
    None,
}

/// What was done with a table's rows since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TableTotals {
    pub(super) batches: u64,
    pub(super) fetched: u64,
    pub(super) published: u64,
    pub(super) failed: u64,
    pub(super) abandoned: u64,
}

impl Table {
    pub(super) fn new(name: TableName) -> Self {
        Self {
            name,
            description: Description::Unknown(Moment::default()),
            fetch_at: Moment::default(),
            news: News::None,
            waits: Waits::default(),
            awaited: None,
            failure: None,
            totals: TableTotals::default(),
        }
    }

    /// Where waits are kept, once the table is described.
    pub(super) fn waits_kept(&self) -> Option<WaitsKept> {
        match self.description {
            Description::Known(kept, _) => Some(kept),
            Description::Unknown(_) => None,
        }
    }
}
