//! Faults of events that cannot be delivered, and of their topic.

use std::time::Duration;

use relay::Code;

use super::AT_ONCE;
use crate::{
    fault::Fault,
    history::RowKind,
    kafka::LETTERS_INDEX,
    world::{World, injection::Injection, repair::Repair},
};

impl World {
    /// Rows of a kind are written. They become dead letters, or a router stops at the first of
    /// them.
    pub(super) fn write_bad_row(
        &mut self,
        fault: Fault,
        kind: RowKind,
        write: fn(&mut Self),
    ) -> Injection {
        if !self.server.history.stops_at(kind) {
            write(self);
            return Injection::Done;
        }
        // A row without a key is held behind no other.
        if !self.checker.holds_keys() || kind == RowKind::NullKey {
            return self.inject_for_person(fault, write);
        }
        if !self.is_noticeable() {
            return Injection::NotApplicable;
        }
        self.checker.note_interruption();
        self.expected_failure.allow(fault.causes());
        self.held.may_stop = true;
        write(self);
        Injection::Done
    }

    /// Its topic refuses every dead letter, for a while.
    pub(super) fn refuse_letters(&mut self) -> Injection {
        if self.kafka.topics.get(LETTERS_INDEX).is_none() {
            return Injection::NotApplicable;
        }
        let code = match self.random.one_in(2) {
            true => Code::RecordRefused,
            false => Code::RecordTooLarge,
        };
        self.kafka.refuses_letters = Some(code);
        // Often long enough for several sessions.
        let least = if self.random.one_in(3) { AT_ONCE } else { Duration::from_secs(12) };
        self.schedule_repair(least, Repair::Letters);
        self.write_poison();
        Injection::Done
    }
}
