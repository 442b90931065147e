//! The end of a process, and the end of a run: faults are over, and everything has to be delivered.

use std::time::Duration;

use relay::{ExitReason, polling::PollInput};

use super::{PollingWorld, SLOTS};
use crate::{
    invariant::{Invariant, Violation},
    polling::{
        plan::{Mended, SHUTDOWN_LIMIT},
        process::Afterwards,
    },
};

/// Within this everything is delivered once nothing is wrong any more.
const DELIVERED_WITHIN: Duration = Duration::from_secs(90);
const STRETCH: Duration = Duration::from_millis(25);
/// How much longer than its limit a shutdown may take: for the answer to its last request.
const SLACK: Duration = Duration::from_secs(5);

impl PollingWorld {
    /// The process has ended by itself.
    pub(super) fn exit(&mut self, slot: usize, reason: ExitReason) {
        self.count(slot);
        self.purge(slot);
        let at = self.at;
        let Some(process) = self.slots[slot].process.take() else { return };
        let number = process.number;
        self.trace(|| format!("{number} ends: {reason:?}"));
        match process.stop_asked_at {
            None => {
                self.checker.report(Invariant::W8Shutdown, || format!("{number} ends: {reason:?}"));
            }
            Some(asked) if at.since(asked) > SHUTDOWN_LIMIT + SLACK => {
                self.checker.report(Invariant::W8Shutdown, || {
                    format!("{number} ends {:?} after it was asked to", at.since(asked))
                });
            }
            Some(_) => {}
        }
        self.start_again(slot, process.afterwards);
    }

    /// Nothing is wrong any more.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub(super) fn end(&mut self) -> Result<(), Violation> {
        self.faults_end();
        let processes = self.slots.iter().filter_map(|slot| slot.process.as_ref());
        let goes_on = processes.filter_map(|process| process.frozen_until).max();
        let give_up_at = goes_on.unwrap_or(self.at).max(self.at) + DELIVERED_WITHIN;
        while self.at < give_up_at
            && (self.checker.has_pending(&self.tables)
                || self.leases.unheld(self.clock.at(self.at)).is_some())
        {
            self.all_goes_well(STRETCH);
            self.check()?;
        }
        self.trace(|| "everything should be delivered".to_owned());
        if let Some((table, shards)) = self.leases.unheld(self.clock.at(self.at)) {
            self.checker.report(Invariant::W7Shards, || {
                format!("{shards} shards of table {table} have no worker, and workers poll it")
            });
        }
        self.checker.at_end(&self.tables, &self.kafka);
        self.check()?;
        let mut last = Vec::new();
        for slot in 0..SLOTS {
            self.slots[slot].start_at = None;
            if let Some(process) = &mut self.slots[slot].process {
                // One that was asked before may have released in vain.
                if process.stop_asked_at.is_none() && !process.is_asked_to_stop {
                    last.push(process.number);
                }
                process.afterwards = Afterwards::Gone;
                self.input(slot, PollInput::Shutdown);
            }
        }
        let give_up_at = self.at + SHUTDOWN_LIMIT + SLACK;
        while self.at < give_up_at && self.slots.iter().any(|slot| slot.process.is_some()) {
            self.all_goes_well(STRETCH);
            self.check()?;
        }
        for slot in 0..SLOTS {
            if let Some(process) = &self.slots[slot].process {
                let number = process.number;
                self.checker.report(Invariant::W8Shutdown, || format!("{number} does not end"));
            }
        }
        for number in last {
            if self.leases.has_any(number, self.clock.at(self.at)) {
                self.checker.report(Invariant::W8Shutdown, || {
                    format!("{number} has ended in order, and still has leases")
                });
            }
        }
        self.coverage.rows = self
            .tables
            .rows()
            .iter()
            .filter(|row| row.commit.is_some())
            .count()
            .try_into()
            .expect("a count");
        self.coverage.duplicates = self.checker.duplicates;
        Ok(())
    }

    fn faults_end(&mut self) {
        let at = self.at;
        self.database_down_until = None;
        self.kafka.down_until = None;
        self.late.end();
        self.kafka.missing_until.fill(None);
        while self.tables.open() > 0 {
            self.tables.commit(0);
        }
        if self.plan.mended == Mended::All {
            self.person_mends_all();
        }
        for slot in 0..SLOTS {
            if let Some(process) = &mut self.slots[slot].process {
                process.is_killed_amid_records = false;
                process.cut_off_at_marks = None;
                process.lease_cut_until = at;
                process.statements_cut_until = at;
                (process.lease_mishap, process.statement_mishap) = (None, None);
                if let Some(producer) = &mut process.producer {
                    producer.freeze_after = None;
                }
            }
        }
        if !(0..self.plan.tables).all(|table| self.has_worker(table)) {
            // One of the first place reads every table, one of another place perhaps not.
            let polls_all =
                |slot: &usize| (0..self.plan.tables).all(|table| self.plan.reads(*slot, table));
            let is_free = |slot: &usize| self.slots[*slot].process.is_none();
            match (0..SLOTS).filter(polls_all).find(is_free) {
                Some(free) => self.start(free),
                None => {
                    if let Some(process) = &mut self.slots[0].process {
                        process.afterwards = Afterwards::Restart;
                    }
                }
            }
        }
        self.trace(|| "the faults are over".to_owned());
    }

    /// Whether a table has a worker that stays, or will have one.
    fn has_worker(&self, table: usize) -> bool {
        let stays = |slot: &super::Slot| {
            slot.start_at.is_some()
                || slot.process.as_ref().is_some_and(|process| {
                    (process.stop_asked_at.is_none() && !process.is_asked_to_stop)
                        || process.afterwards == Afterwards::Restart
                })
        };
        (0..SLOTS).any(|slot| self.plan.reads(slot, table) && stays(&self.slots[slot]))
    }

    /// Every request is answered at once, and everything that is produced is acknowledged. Then so
    /// much time passes.
    pub(super) fn all_goes_well(&mut self, time: Duration) {
        for slot in 0..SLOTS {
            self.carry_out_lease(slot);
            self.deliver_lease(slot);
            self.carry_out_statement(slot);
            self.deliver_statement(slot);
            for _ in 0..3 {
                self.answer_look_up(slot);
                self.send(slot);
                self.arrive(slot);
                self.acknowledge(slot);
            }
            self.collect(slot);
        }
        if self.random.one_in(4) {
            self.check_beliefs();
        }
        self.person_requeues_mended();
        self.advance(time);
    }
}
