//! What is known of events that cannot be delivered.

use std::collections::BTreeSet;

/// What is known of events that cannot be delivered.
#[derive(Debug, Default)]
pub(super) struct HeldFacts {
    /// Events that the broker refuses.
    pub(super) refused: BTreeSet<usize>,
    /// Those that it refuses for a while.
    for_now: BTreeSet<usize>,
    /// Events that it has ever refused.
    pub(super) ever_refused: BTreeSet<usize>,
    /// Whether a row was written at which a router may stop for good: unless it is held behind a
    /// dead letter of its key.
    pub(super) may_stop: bool,
    /// Whether the faults are over, so that the person decides about everything.
    pub(super) is_over: bool,
}

impl HeldFacts {
    /// The broker refuses this event, until [`HeldFacts::accept_again`].
    pub(super) fn refuse_for_now(&mut self, number: usize) {
        self.for_now.insert(number);
        self.refuse(number);
    }

    /// The broker refuses this event.
    pub(super) fn refuse(&mut self, number: usize) {
        self.refused.insert(number);
        self.ever_refused.insert(number);
    }

    /// What was refused for a while is not refused any more.
    pub(super) fn accept_again(&mut self) {
        for number in std::mem::take(&mut self.for_now) {
            self.refused.remove(&number);
        }
    }
}
