//! Why a frame waits.

use crate::{clock::Moment, failure::Failure, routing::record::TopicId};

/// Why the frame at hand waits, and everything behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlockReason {
    /// Its topic has not been found.
    Topic(TopicId),
    /// The producer has no room for it, or not yet: offered again after the next acknowledgements,
    /// or at this moment.
    QueueFull { again_at: Moment },
    /// The sink is closed: the failure that closed it ends the session.
    SinkClosed,
    /// The row cannot become a record until a person changes something.
    Row {
        failure: Failure,
        /// When to look at it again.
        again_at: Moment,
        /// The topic whose limit it exceeds: a look-up decides whether it still does.
        topic: Option<TopicId>,
    },
    /// It begins the transaction that an earlier session failed at, or the next one: everything
    /// before it is to be confirmed first.
    Isolate,
    /// It begins a transaction, and we are stopping.
    Draining,
}
