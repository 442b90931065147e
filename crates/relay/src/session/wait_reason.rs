//! What a session waits for before it takes the next frame. This is not the state `blocked`: the
//! state says that nothing can be acknowledged, and most waits are short.

use crate::{clock::Moment, failure::Failure, routing::record::TopicId};

/// Why the session waits: the frame at hand is not taken, nor anything behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// The row's topic is not ready: not found yet, or not yet in the witness.
    Topic(TopicId),
    /// The sink has no room for the record, or its partition waits. The frame is offered again
    /// after the next acknowledgements, or at `again_at`.
    QueueFull { again_at: Moment },
    /// The sink is closed: the failure that closed it ends the session.
    SinkClosed,
    /// The row cannot become a record until a person changes something.
    Row {
        failure: Failure,
        /// When the row is offered again, or its topic looked up again.
        again_at: Moment,
        /// The topic whose `max.message.bytes` the record exceeds; a look-up shows whether it still
        /// does.
        topic: Option<TopicId>,
    },
    /// The frame begins the transaction at which an earlier session failed, or the next one:
    /// everything before it must be confirmed first.
    Isolate,
    /// The frame begins a transaction, and the router is stopping.
    Draining,
}
