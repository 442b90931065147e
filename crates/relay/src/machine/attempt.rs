//! What an attempt to connect has found so far.

use crate::{
    clock::Moment,
    source::{Baseline, Gap, Held, Server, SlotLook},
    witness::Witness,
};

/// What an attempt to connect has found so far.
pub(super) struct Attempt {
    pub(super) step: Awaited,
    /// The witness that everything is held against, with the present history.
    pub(super) witness: Option<Witness>,
    pub(super) cluster: String,
    pub(super) server: Option<Server>,
    pub(super) look: Option<SlotLook>,
    pub(super) baseline: Option<Baseline>,
    /// What is wrong, if the witness has not changed meanwhile.
    pub(super) gaps: Vec<Gap>,
    /// When the server began to stream.
    pub(super) started_at: Option<Moment>,
    /// Its process, where a pooler in between does not hide it.
    pub(super) walsender: Option<i32>,
    /// When the slot was seen to be ours.
    pub(super) held: Option<Held>,
}

/// See [`Attempt::found`].
pub(super) struct Found {
    pub(super) baseline: Baseline,
    pub(super) witness: Option<Witness>,
    pub(super) cluster: String,
    pub(super) held: Option<Held>,
}

/// What is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    State,
    Open,
    Timelines,
    Slot,
    Catalog,
    Start,
    SlotAgain,
    StateAgain,
}

impl Attempt {
    /// Whether there is a connection, or one is being made.
    pub(super) fn has_begun(&self) -> bool {
        self.step != Awaited::State
    }

    /// What the session begins with, once everything was judged.
    pub(super) fn found(&mut self) -> Option<Found> {
        let baseline = self.baseline.take()?;
        let cluster = std::mem::take(&mut self.cluster);
        Some(Found { baseline, witness: self.witness.take(), cluster, held: self.held })
    }

    /// Whether there is a connection.
    pub(super) fn is_connected(&self) -> bool {
        !matches!(self.step, Awaited::State | Awaited::Open)
    }

    /// Whether there is a slot that a stream can be started from.
    pub(super) fn has_usable_slot(&self) -> bool {
        let slot = self.look.as_ref().and_then(|look| look.slot.as_ref());
        slot.is_some_and(|slot| !slot.is_lost())
    }
}
