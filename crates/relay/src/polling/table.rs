//! One polled table: what is known of it, and when it is read next.

use std::time::Duration;

use super::{protocol::WaitsKept, waits::Waits};
use crate::{
    clock::Moment,
    failure::Failure,
    routing::{record::TopicId, table::TableName},
};

/// From one reading to the next that a NOTIFY asks for. While writers commit all the time, each
/// reading finds the rows of several transactions, and costs the server once what it costs to read
/// and to mark.
pub(super) const BETWEEN_NOTIFIED: Duration = Duration::from_millis(5);

/// See the module's header.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: TableName,
    pub(super) description: Description,
    /// When to read it next.
    pub(super) fetch_at: Moment,
    /// When it was read last.
    read_at: Moment,
    /// Whether a NOTIFY has arrived since it was read last.
    news: News,
    pub(super) waits: Waits,
    /// How many of its rows are still to be read one by one, since one of several was refused.
    pub(super) one_by_one: usize,
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
enum News {
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
            read_at: Moment::default(),
            news: News::None,
            waits: Waits::default(),
            one_by_one: 0,
            awaited: None,
            failure: None,
            totals: TableTotals::default(),
        }
    }

    /// A NOTIFY says that there are rows.
    pub(super) fn notified(&mut self) {
        self.news = News::Some;
    }

    /// It is read now.
    pub(super) fn reads(&mut self, at: Moment) {
        self.read_at = at;
        self.news = News::None;
    }

    /// When its rows are to be read.
    pub(super) fn due_at(&self) -> Moment {
        match self.news {
            News::Some => self.fetch_at.min(self.read_at + BETWEEN_NOTIFIED),
            News::None => self.fetch_at,
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
