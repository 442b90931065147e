//! Generation and holder of the slot when a gap was found. From these, [`super::memory`] decides
//! that the gap is over.

use relay::{Snapshot, source::SlotReading};

/// Generation and holder at the moment at which a gap was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundAt {
    /// The generation of the pipeline's witness, as the streaming task knew it; 0 while it knew
    /// none.
    pub(super) generation: u64,
    /// Process id of the walsender that held the slot; `None`: the slot was not held.
    pub(super) walsender: Option<i32>,
}

impl FoundAt {
    pub(super) fn at(snapshot: &Snapshot, reading: &SlotReading) -> Self {
        Self { generation: snapshot.witness.generation, walsender: walsender(reading) }
    }
}

/// Process id of the walsender that holds the slot.
pub(super) fn walsender(reading: &SlotReading) -> Option<i32> {
    reading.slot.as_ref()?.active_pid
}
