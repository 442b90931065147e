//! What a check has counted.

use std::fmt;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoundResult {
    /// Records that repeat an earlier one.
    pub(crate) duplicates: usize,
    /// Events in Kafka that the next process may send again: those past the witness, and those
    /// whose row in the table is open.
    pub(crate) repeatable: usize,
}

/// Records that repeat an earlier one, by where the router had them from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Repeats {
    pub(super) of_wal: usize,
    pub(super) of_table: usize,
}

impl Repeats {
    pub(super) fn duplicates(self) -> usize {
        self.of_wal + self.of_table
    }
}

impl std::ops::Add for Repeats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { of_wal: self.of_wal + other.of_wal, of_table: self.of_table + other.of_table }
    }
}

/// Numbers of violations, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ViolationCounts {
    /// Events that were confirmed and were neither in Kafka nor in the table of held events.
    pub(crate) confirmed_ahead: usize,
    /// Checks at which the slot, or a status update to it, was past the witness.
    pub(crate) slot_ahead: usize,
    /// Events before the witness that were neither in Kafka nor in the table of held events.
    pub(crate) witness_ahead: usize,
    /// Records that came again although the witness covered their event.
    pub(crate) repeated: usize,
    /// Events that have left the table of held events as delivered, and were not in Kafka.
    pub(crate) left_ahead: usize,
    /// Dead letters that nobody had given up, and that later events of their key have passed.
    pub(crate) passed: usize,
}

impl fmt::Display for ViolationCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { confirmed_ahead, slot_ahead, witness_ahead, repeated, left_ahead, passed } =
            self;
        write!(
            f,
            "confirmed ahead {confirmed_ahead} · slot ahead of witness {slot_ahead} · \
             witness ahead of acks {witness_ahead} · covered and repeated {repeated} · \
             released ahead of acks {left_ahead} · dead letters passed {passed}"
        )
    }
}
