//! The producer as the core knows it: ready or being replaced, and whether several have failed in a
//! row.
//!
//! A producer that the cluster refuses altogether fails as soon as it is made. So after the first
//! failure the producer is replaced at once, and after each further failure in a row only after a
//! growing wait: otherwise producers would be made and destroyed in a loop. The reason is reported
//! all the time. Between two failures a producer seems to work for a moment, and a state that
//! followed this would alternate and inform nobody.

use std::time::Duration;

use crate::{
    clock::Moment,
    failure::Failure,
    machine::backoff::{Backoff, STEADY},
};

/// See the module's documentation.
pub(crate) struct SinkState {
    presence: Presence,
    streak: Streak,
    backoff: Backoff,
}

enum Presence {
    Ready { since: Moment },
    Replacing,
}

/// Failures in a row: since the last acknowledgement, or since a producer lasted.
enum Streak {
    None,
    One,
    /// The latest failure.
    More(Failure),
}

impl SinkState {
    /// A sink that is being made.
    pub(crate) fn new(seed: u64) -> Self {
        Self { presence: Presence::Replacing, streak: Streak::None, backoff: Backoff::new(seed) }
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.presence, Presence::Ready { .. })
    }

    pub(crate) fn ready(&mut self, at: Moment) {
        self.presence = Presence::Ready { since: at };
    }

    /// Begins to replace the producer, because of its failure (`why`) or for another reason.
    /// Returns how long to wait before the next one is made; `None` if it is being replaced
    /// already.
    pub(crate) fn replace(&mut self, why: Option<&Failure>, at: Moment) -> Option<Duration> {
        if !self.is_ready() {
            return None;
        }
        if self.has_lasted(at) {
            self.succeeded();
        }
        self.presence = Presence::Replacing;
        let Some(failure) = why else { return Some(Duration::ZERO) };
        let (streak, wait) = match self.streak {
            Streak::None => (Streak::One, Duration::ZERO),
            Streak::One | Streak::More(_) => (Streak::More(failure.clone()), self.backoff.next()),
        };
        self.streak = streak;
        Some(wait)
    }

    /// Something was acknowledged, so the producer works: the failures in a row end.
    pub(crate) fn succeeded(&mut self) {
        self.streak = Streak::None;
        self.backoff.reset();
    }

    /// The latest failure, if several producers have failed in a row and the present one has not
    /// lasted.
    pub(crate) fn repeated_failure(&self, at: Moment) -> Option<&Failure> {
        match &self.streak {
            Streak::More(failure) if !self.has_lasted(at) => Some(failure),
            Streak::None | Streak::One | Streak::More(_) => None,
        }
    }

    /// Whether the producer has lasted. An idle outbox produces nothing that could be acknowledged,
    /// so there time shows that the producer works.
    fn has_lasted(&self, at: Moment) -> bool {
        match self.presence {
            Presence::Ready { since } => at.since(since) >= STEADY,
            Presence::Replacing => false,
        }
    }
}
