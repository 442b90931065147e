//! How things stood when a gap was found.

use relay::{Snapshot, source::SlotLook};

/// See the module's documentation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// The generation of the pipeline's record, as the relay knew it; 0 while it knew none.
    pub(super) generation: u64,
    /// Who held the slot.
    pub(super) walsender: Option<i32>,
}

impl Found {
    pub(super) fn at(snapshot: &Snapshot, look: &SlotLook) -> Self {
        Self { generation: snapshot.witness.generation, walsender: walsender(look) }
    }
}

/// The process that holds the slot.
pub(super) fn walsender(look: &SlotLook) -> Option<i32> {
    look.slot.as_ref()?.active_pid
}
