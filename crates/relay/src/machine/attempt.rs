//! What an attempt to connect has found so far.

use pgoutput::Lsn;

use crate::{
    backlog::BacklogFrom,
    clock::Moment,
    source::{Baseline, Gap, Server, ServerMoment, SlotReading},
    witness::Witness,
};

/// What an attempt to connect has found so far.
pub(super) struct Attempt {
    pub(super) step: Awaited,
    /// The witness that everything is compared with; it has the server's history once that is
    /// checked.
    pub(super) witness: Option<Witness>,
    pub(super) cluster: String,
    pub(super) server: Option<Server>,
    pub(super) reading: Option<SlotReading>,
    pub(super) baseline: Option<Baseline>,
    /// Gaps that were found; they count if the witness is unchanged when it is read again.
    pub(super) gaps: Vec<Gap>,
    /// When the server began to stream.
    pub(super) started_at: Option<Moment>,
    /// The process id of the walsender; `None` if a pooler hides it.
    pub(super) walsender: Option<i32>,
    /// The moment at which this router was seen to hold the slot.
    pub(super) held: Option<ServerMoment>,
    /// Where the stream's frames come from.
    pub(super) frames: BacklogFrom,
}

/// What a successful attempt hands to its session ([`Attempt::found`]).
pub(super) struct CheckedSource {
    pub(super) baseline: Baseline,
    pub(super) witness: Option<Witness>,
    pub(super) cluster: String,
    pub(super) held: Option<ServerMoment>,
    pub(super) frames: BacklogFrom,
}

/// The answer that the attempt waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    StateTopic,
    Connect,
    Timelines,
    Slot,
    Catalog,
    StartReplication,
    SlotAgain,
    StateTopicAgain,
    Held,
}

impl Attempt {
    /// Whether a connection was asked for: it is made, or being made.
    pub(super) fn has_begun(&self) -> bool {
        self.step != Awaited::StateTopic
    }

    /// What the session begins with; `None` before everything is checked.
    pub(super) fn found(&mut self) -> Option<CheckedSource> {
        let baseline = self.baseline.take()?;
        let cluster = std::mem::take(&mut self.cluster);
        Some(CheckedSource {
            baseline,
            witness: self.witness.take(),
            cluster,
            held: self.held,
            frames: self.frames,
        })
    }

    /// Where the slot stands, as it was read first.
    pub(super) fn slot_at(&self) -> Lsn {
        let slot = self.reading.as_ref().and_then(|reading| reading.slot.as_ref());
        slot.and_then(|slot| slot.confirmed_flush_lsn).unwrap_or(Lsn::ZERO)
    }

    /// Whether there is a connection.
    pub(super) fn is_connected(&self) -> bool {
        !matches!(self.step, Awaited::StateTopic | Awaited::Connect)
    }

    /// Whether there is a slot that a stream can be started from.
    pub(super) fn has_usable_slot(&self) -> bool {
        let slot = self.reading.as_ref().and_then(|reading| reading.slot.as_ref());
        slot.is_some_and(|slot| !slot.is_lost())
    }
}
