//! The producer as the core knows it: there or on its way, and whether one after the other fails.
//!
//! One that the cluster refuses as a whole fails as soon as it is made. So the first failure of a
//! row is replaced at once, and each further one after a wait, or producers would be made and
//! destroyed in a loop. What they fail for is told all the while: between two failures everything
//! looks well for a moment, and a state that changes with it says nothing.

use std::time::Duration;

use crate::{
    clock::Moment,
    failure::Failure,
    machine::backoff::{Backoff, STEADY},
};

/// See the module's documentation.
pub(super) struct Sink {
    presence: Presence,
    row: Row,
    backoff: Backoff,
}

enum Presence {
    Ready { since: Moment },
    Replacing,
}

/// Failures since something was acknowledged, or a producer lasted.
enum Row {
    None,
    One,
    /// The latest of them.
    More(Failure),
}

impl Sink {
    /// One that is being made.
    pub(super) fn new(seed: u64) -> Self {
        Self { presence: Presence::Replacing, row: Row::None, backoff: Backoff::new(seed) }
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.presence, Presence::Ready { .. })
    }

    pub(super) fn ready(&mut self, at: Moment) {
        self.presence = Presence::Ready { since: at };
    }

    /// The producer is given up, because of its own failure or for another reason: how long the
    /// next one is waited for. `None`: that one is on its way already.
    pub(super) fn replace(&mut self, why: Option<&Failure>, at: Moment) -> Option<Duration> {
        if !self.is_ready() {
            return None;
        }
        if self.has_lasted(at) {
            self.proved();
        }
        self.presence = Presence::Replacing;
        let Some(failure) = why else { return Some(Duration::ZERO) };
        let (row, wait) = match self.row {
            Row::None => (Row::One, Duration::ZERO),
            Row::One | Row::More(_) => (Row::More(failure.clone()), self.backoff.next()),
        };
        self.row = row;
        Some(wait)
    }

    /// Something was acknowledged.
    pub(super) fn proved(&mut self) {
        self.row = Row::None;
        self.backoff.reset();
    }

    /// What one producer after the other fails for.
    pub(super) fn trouble(&self, at: Moment) -> Option<&Failure> {
        match &self.row {
            Row::More(failure) if !self.has_lasted(at) => Some(failure),
            Row::None | Row::One | Row::More(_) => None,
        }
    }

    /// An idle outbox has nothing to be acknowledged: there, time is the proof.
    fn has_lasted(&self, at: Moment) -> bool {
        match self.presence {
            Presence::Ready { since } => at.since(since) >= STEADY,
            Presence::Replacing => false,
        }
    }
}
