//! Faults of events that cannot be delivered, of their topic, and of the table in which they wait.

use std::{rc::Rc, time::Duration};

use relay::{
    Code,
    held::{Decision, EventId},
    testing::HeldTable,
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

    /// Somebody deletes the row of an event that has not left the table.
    pub(super) fn remove_a_held_row(&mut self) -> Injection {
        self.replace_the_table(Fault::RemoveHeldRow, |world| {
            let open: Vec<EventId> = world.open_rows();
            let id = open[world.random.index(open.len())];
            world.server.remove_held_row(id);
        })
    }

    /// Somebody restores the table to a state that it had before.
    pub(super) fn restore_the_held_table(&mut self) -> Injection {
        self.replace_the_table(Fault::RestoreHeldTable, |world| {
            let older = world.older_tables();
            let older = &older[world.random.index(older.len())];
            world.server.replace_held_table(Rc::clone(older));
        })
    }

    /// Somebody takes rows out of the table. It is noticed when the next session begins, if the
    /// witness names the last write that the table has.
    fn replace_the_table(&mut self, fault: Fault, action: fn(&mut Self)) -> Injection {
        if !self.is_noticeable() || !self.wait_until_held(fault) {
            return Injection::NotApplicable;
        }
        // After a restored write, a session that goes on would count the next one in its place.
        let goes_on = fault == Fault::RemoveHeldRow && self.random.one_in(2);
        if !goes_on {
            self.end_sessions();
        }
        action(self);
        self.require_failure(fault.causes());
        if goes_on {
            self.go_on_without_rows();
        }
        self.checker.advance_past_accepted(&self.server.history);
        Injection::Done
    }

    fn end_sessions(&mut self) {
        self.server.end_walsenders(Code::ServerUnreachable);
        if self.random.one_in(2) {
            self.stop_all_routers();
        }
    }

    /// The session that runs when rows are removed goes on without them, and writes to the table.
    /// The next one notices it.
    fn go_on_without_rows(&mut self) {
        self.server.history.accept_lost_rows();
        self.checker.advance_past_accepted(&self.server.history);
        self.write_poison();
        for _ in 0..self.random.below(12) {
            self.run_round();
        }
        for _ in 0..ROUNDS {
            if !self.expected_failure.is_required() || self.has_open_gap() {
                return;
            }
            self.end_orphans();
            if self.is_loss_recorded() {
                self.end_sessions();
                return;
            }
            self.run_round();
        }
        // No witness names a write after which rows were missing: a session has begun between the
        // two, or the position has not moved since. What is held behind the row goes on with the
        // next session, since no dead letter is left that a person could decide about.
        self.expected_failure.resolve();
        self.end_sessions();
    }

    /// Whether the record that counts names the table's last write, after which more events were
    /// open than there are.
    fn is_loss_recorded(&self) -> bool {
        let Some(recorded) = self.kafka.state.best() else { return false };
        let there = self.server.read_held_table();
        recorded.held_table.version == there.mark.version
            && recorded.held_table.open > there.events
            && !self.is_outranked(&recorded)
    }

    /// Runs rounds until the table has what the fault needs.
    fn wait_until_held(&mut self, fault: Fault) -> bool {
        crate::coverage::disarm();
        for round in 0..ROUNDS {
            self.end_orphans();
            if self.is_noticeable() && self.is_table_recorded() {
                let is_ready = match fault == Fault::RemoveHeldRow {
                    true => !self.open_rows().is_empty(),
                    false => !self.older_tables().is_empty(),
                };
                if is_ready {
                    return true;
                }
            }
            if round % 8 == 0 {
                self.write_poison();
            }
            self.run_round();
        }
        false
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

    /// Whether the record that counts names the table's last write, and none that outranks it is on
    /// its way.
    fn is_table_recorded(&self) -> bool {
        let Some(recorded) = self.kafka.state.best() else { return false };
        let mark = self.server.held.table.mark();
        recorded.held_table == mark && mark.version.is_some() && !self.is_outranked(&recorded)
    }

    fn open_rows(&self) -> Vec<EventId> {
        let rows = self.server.held.table.rows().filter(|row| row.is_open());
        rows.map(|row| row.event.id).collect()
    }

    /// Earlier states of the table that lack writes which matter.
    fn older_tables(&self) -> Vec<Rc<HeldTable>> {
        let now = self.server.held.table.mark();
        let older = self.server.held.earlier().filter(|table| table.mark().lacks(now));
        older.cloned().collect()
    }
}
