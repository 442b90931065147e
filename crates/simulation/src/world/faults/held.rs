//! Faults of events that cannot be delivered, and of their topic.

use std::time::Duration;

use relay::{
    Code,
    held::{Decision, EventId},
};

use super::AT_ONCE;
use crate::{
    fault::Fault,
    history::RowKind,
    kafka::LETTERS_INDEX,
    world::{World, injection::Injection, repair::Repair},
};

/// How many rounds are run until something is held.
const ROUNDS: u32 = 40;

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

    /// A topic gets more partitions while a batch of released events is in flight to it, and
    /// nothing else is. The batch is interrupted then, and comes again.
    pub(super) fn grow_a_topic_amid_a_batch(&mut self) -> Injection {
        /// In these rounds everything else arrives, and topics are refreshed.
        const QUIET: u32 = 24;
        for round in 0..ROUNDS {
            if !self.open_rows().is_empty() && round > QUIET {
                break;
            }
            if round % 8 == 0 && self.open_rows().is_empty() {
                self.write_poison();
            }
            self.run_round();
        }
        // The state topic goes on, so that the witness could name the greater number.
        for topic in &mut self.kafka.topics {
            topic.leaderless = u64::MAX;
        }
        self.schedule_repair(Duration::from_secs(10), Repair::Leaders);
        let undecided: Vec<EventId> = self.server.held.table.undecided().collect();
        undecided.into_iter().for_each(|id| self.decide_about(id, Decision::Deliver));
        for _ in 0..QUIET / 3 {
            self.run_round();
        }
        let grown = self.grow_a_topic();
        for _ in 0..QUIET {
            self.run_round();
        }
        let holder = self.server.holder().map(|holder| holder.router);
        if let Some(router) = holder.filter(|router| self.routers[*router].runs()) {
            self.kill(router);
        }
        grown
    }

    fn open_rows(&self) -> Vec<EventId> {
        let rows = self.server.held.table.rows().filter(|row| row.is_open());
        rows.map(|row| row.event.id).collect()
    }
}
