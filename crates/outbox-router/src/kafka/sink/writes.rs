//! What a sink keeps about its writes to the state topic.

use relay::{TopicName, WriteAck};

use crate::kafka::ffi::{TopicAddress, TopicHandle};

/// The state topic and the write in flight.
pub(super) struct StateWrites {
    pub(super) name: TopicName,
    pub(super) handle: TopicHandle,
    pub(super) flight: Flight,
    /// The latest acknowledged write, until it is taken.
    pub(super) written: Option<WriteAck>,
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
