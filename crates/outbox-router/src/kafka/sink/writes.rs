//! What a sink remembers of its records for the state topic.

use relay::TopicName;

use crate::kafka::ffi::{TopicAddress, TopicHandle};

/// The state topic, and what became of the records for it.
pub(super) struct StateWrites {
    pub(super) name: TopicName,
    pub(super) handle: TopicHandle,
    pub(super) flight: Flight,
    /// Acknowledged and not yet asked for.
    pub(super) written: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flight {
    None,
    One,
}

impl StateWrites {
    pub(super) fn is_about(&self, address: TopicAddress) -> bool {
        self.handle.address() == address
    }
}
