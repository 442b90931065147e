//! Faults that replace the server's history, or the Kafka cluster.

use relay::{Code, Moment};

use super::{NOW, person::LATER};
use crate::{
    fault::Fault,
    postgres::{RestoredSlot, RestoredTimeline, ServerPhase},
    world::{World, injection::Injection, repair::Repair},
};

impl World {
    /// A standby that has everything is promoted. Its copy of the slot may be somewhat behind.
    pub(super) fn promote_a_standby(&mut self) -> Injection {
        if self.server.phase != ServerPhase::Up {
            return Injection::NotApplicable;
        }
        self.checker.interrupted();
        let (end, until) = (self.server.history.end_of_wal, self.soon());
        self.server.go_back(end, RestoredSlot::Kept, RestoredTimeline::Next, until);
        Injection::Done
    }

    /// A standby that lacks the last transactions is promoted.
    pub(super) fn promote_one_that_lags(&mut self) -> Injection {
        self.exchange_the_past(Fault::PromoteLagging, |world, until| {
            let to = world.server.some_late_position(&mut world.random);
            world.go_back(to, RestoredSlot::Kept, RestoredTimeline::Next, until);
            Some(to)
        })
    }

    /// A standby that has no copy of the slot is promoted, and somebody creates a slot there.
    pub(super) fn promote_one_without_slot(&mut self) -> Injection {
        self.exchange_the_past(Fault::PromoteWithoutSlot, |world, until| {
            let to = world.server.history.end_of_wal;
            world.go_back(to, RestoredSlot::Missing, RestoredTimeline::Next, until);
            world.write_on();
            world.mend_after(LATER, Repair::Slot);
            // Nothing acknowledged is lost, but the slot is not where it was.
            Some(0)
        })
    }

    /// A backup is restored to some moment: on a new timeline, and without slots.
    pub(super) fn restore_a_backup(&mut self) -> Injection {
        self.exchange_the_past(Fault::RestoreBackup, |world, until| {
            let to = world.server.some_past(&mut world.random)?;
            world.go_back(to, RestoredSlot::Missing, RestoredTimeline::Next, until);
            world.write_on();
            world.mend_after(LATER, Repair::Slot);
            Some(0)
        })
    }

    /// The storage is taken back to a snapshot: slot and timeline are those of that moment, and new
    /// WAL is written from there.
    pub(super) fn restore_a_snapshot(&mut self) -> Injection {
        self.exchange_the_past(Fault::RestoreSnapshot, |world, until| {
            let to = world.server.some_past(&mut world.random)?;
            world.go_back(to, RestoredSlot::Kept, RestoredTimeline::Same, until);
            for _ in 0..world.random.below(20) {
                world.write_on();
            }
            Some(to)
        })
    }

    /// The server's address leads to another database cluster.
    pub(super) fn exchange_the_server(&mut self) -> Injection {
        self.exchange_the_past(Fault::ExchangeServer, |world, until| {
            world.server.exchange(&mut world.random, until);
            world.forget_what_is_gone();
            for _ in 0..world.random.below(6) {
                world.write_on();
            }
            Some(0)
        })
    }

    /// Replaces the history. `exchange` returns the position up to which the old history is left,
    /// or None if nothing could be done. A router must ask for a person if the witness names a
    /// later transaction, and may do so otherwise.
    fn exchange_the_past(
        &mut self,
        fault: Fault,
        exchange: impl FnOnce(&mut Self, Moment) -> Option<u64>,
    ) -> Injection {
        if !self.is_ripe() {
            return Injection::NotApplicable;
        }
        let Some(attested) = self.kafka.state.best() else { return Injection::NotApplicable };
        let until = self.soon();
        self.wal_that_is_gone = self.wal_that_is_gone.max(self.server.history.end_of_wal);
        let Some(left) = exchange(self, until) else { return Injection::NotApplicable };
        let last = attested.last.map(|last| last.end_lsn.as_u64());
        // A session begins its record with what it has read, and may not have written it yet. What
        // an earlier session, which has lost the slot, had acknowledged since does not count.
        let is_due =
            left == 0 || last.is_some_and(|last| last > left) && !self.is_outranked(&attested);
        // A router that has not noticed the change may still attest what it produced.
        self.checker.interrupted();
        self.call.allow(fault.causes());
        if is_due {
            self.call.demand();
        }
        Injection::Done
    }

    fn go_back(&mut self, to: u64, slot: RestoredSlot, timeline: RestoredTimeline, until: Moment) {
        self.server.go_back(to, slot, timeline, until);
        self.forget_what_is_gone();
    }

    /// Takes the counts back, before anything is written after the cut.
    fn forget_what_is_gone(&mut self) {
        let end = self.server.history.end_of_wal;
        self.checker.went_back(&self.server.history);
        self.lost_word = self.lost_word.min(end);
        self.overlapped = self.overlapped.min(end);
        self.refused = None;
    }

    /// The brokers' addresses lead to another Kafka cluster, to which somebody has copied the
    /// events.
    pub(super) fn exchange_kafka(&mut self) -> Injection {
        if !self.is_ripe() {
            return Injection::NotApplicable;
        }
        self.kafka.clusters += 1;
        self.kafka.ghosts.clear();
        self.kafka.state.ghosts.clear();
        if self.random.one_in(3) {
            // The state topic was not copied.
            self.kafka.state.clear();
            self.is_state_lost = true;
        }
        for router in 0..self.routers.len() {
            if let Some(producer) = &mut self.routers[router].producer {
                producer.forget_unstored();
            }
            self.fail_producer(router);
        }
        self.checker.interrupted();
        self.call.allow(Fault::ExchangeKafka.causes());
        if !self.is_state_lost {
            self.call.demand();
        }
        Injection::Done
    }

    /// The state topic can be neither read nor written for a while.
    pub(super) fn take_the_state_away(&mut self) -> Injection {
        self.kafka.state.is_leaderless = true;
        self.mend_after(NOW, Repair::State);
        Injection::Done
    }

    /// The state topic is deleted and re-created. A router may know less than the deleted records
    /// said.
    pub(super) fn delete_the_state(&mut self) -> Injection {
        self.checker.interrupted();
        self.kafka.state.delete();
        self.is_state_lost = true;
        self.call.allow(&[Code::SlotMoved]);
        self.mend_after(NOW, Repair::State);
        Injection::Done
    }
}
