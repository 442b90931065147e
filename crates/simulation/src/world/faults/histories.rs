//! Faults that replace the server's history, or the Kafka cluster.

use std::time::Duration;

use relay::{Code, Moment};

use super::{AT_ONCE, person::PERSON_DELAY_MIN};
use crate::{
    fault::Fault,
    kafka::SimulatedProducer,
    postgres::{RestoredSlot, RestoredTimeline, ServerPhase},
    world::{World, injection::Injection, repair::Repair},
};

/// For how long a named standby is away at least: routers connect meanwhile.
const STANDBY_AWAY_MIN: Duration = Duration::from_secs(8);

impl World {
    /// A standby that has everything is promoted. Its copy of the slot may be somewhat behind.
    pub(super) fn promote_a_standby(&mut self) -> Injection {
        if self.server.phase != ServerPhase::Up {
            return Injection::NotApplicable;
        }
        self.checker.note_interruption();
        let (end, until) = (self.server.history.end_of_wal, self.some_time_soon());
        self.server.restore(end, RestoredSlot::Kept, RestoredTimeline::Next, until);
        Injection::Done
    }

    /// The standby for which the walsender waits is away.
    pub(super) fn take_the_standby_away(&mut self) -> Injection {
        let Some(standby) = &mut self.server.history.standby else {
            return Injection::NotApplicable;
        };
        standby.is_away = true;
        self.schedule_repair(STANDBY_AWAY_MIN, Repair::Standby);
        Injection::Done
    }

    /// The standby for which the walsender waits is promoted. Nothing is asked of a person: what it
    /// lacks was sent to no router. (The table of held events is written without waiting for it.)
    pub(super) fn promote_the_named_standby(&mut self) -> Injection {
        let is_up = self.server.phase == ServerPhase::Up && !self.has_dead_letters();
        // Its copy of the slot is not where somebody has put the slot of the former primary.
        let is_untouched = self.expected_failure.allows_nothing();
        let standby = self.server.history.standby.filter(|_| is_up && is_untouched);
        let Some(standby) = standby else {
            return Injection::NotApplicable;
        };
        // It was away when another was promoted, and is no heir of that one: a person decides.
        if standby.received < self.server.forked_at() {
            return Injection::NotApplicable;
        }
        self.checker.note_interruption();
        self.discarded_wal_end = self.discarded_wal_end.max(self.server.history.end_of_wal);
        let until = self.some_time_soon();
        self.restore(standby.received, RestoredSlot::Kept, RestoredTimeline::Next, until);
        Injection::Done
    }

    /// A standby that lacks the last transactions is promoted.
    pub(super) fn promote_a_lagging_standby(&mut self) -> Injection {
        self.replace_the_history(Fault::PromoteLagging, |world, until| {
            let to = world.server.some_recent_position(&mut world.random);
            world.restore(to, RestoredSlot::Kept, RestoredTimeline::Next, until);
            Some(to)
        })
    }

    /// A standby that has no copy of the slot is promoted, and somebody creates a slot there.
    pub(super) fn promote_a_standby_without_slot(&mut self) -> Injection {
        self.replace_the_history(Fault::PromoteWithoutSlot, |world, until| {
            let to = world.server.history.end_of_wal;
            world.restore(to, RestoredSlot::Missing, RestoredTimeline::Next, until);
            world.write_more();
            world.schedule_repair(PERSON_DELAY_MIN, Repair::Slot);
            // Nothing acknowledged is lost, but the slot is not where it was.
            Some(0)
        })
    }

    /// A backup is restored to some moment: on a new timeline, and without slots.
    pub(super) fn restore_a_backup(&mut self) -> Injection {
        self.replace_the_history(Fault::RestoreBackup, |world, until| {
            let to = world.server.some_restore_point(&mut world.random)?;
            world.restore(to, RestoredSlot::Missing, RestoredTimeline::Next, until);
            world.write_more();
            world.schedule_repair(PERSON_DELAY_MIN, Repair::Slot);
            Some(0)
        })
    }

    /// The storage is taken back to a snapshot: slot and timeline are those of that moment, and new
    /// WAL is written from there.
    pub(super) fn restore_a_snapshot(&mut self) -> Injection {
        let injection = self.replace_the_history(Fault::RestoreSnapshot, |world, until| {
            let to = world.server.some_restore_point(&mut world.random)?;
            world.restore(to, RestoredSlot::Kept, RestoredTimeline::Same, until);
            for _ in 0..world.random.below(20) {
                world.write_more();
            }
            Some(to)
        });
        if injection == Injection::Done && !self.expected_failure.is_required() {
            self.fail_the_first_session();
        }
        injection
    }

    /// The first session on the server fails before its record is stored, and the server writes
    /// past the WAL that it has lost: nothing shows the next session what the first has seen.
    fn fail_the_first_session(&mut self) {
        const STEP: Duration = Duration::from_millis(100);
        self.causes.insert(Code::ProducerFatal);
        let router = self.some_router();
        for _ in 0..200 {
            let process = &self.routers[router];
            let has_write = process.producer.as_ref().is_some_and(SimulatedProducer::has_write);
            if process.has_begun && process.connection.is_some() && has_write {
                self.checker.note_interruption();
                self.fail_producer(router);
                break;
            }
            self.answer(router);
            // Nothing is answered to the other router meanwhile, which may be connecting.
            self.causes.insert(Code::ServerSilent);
            self.advance_clock(STEP);
        }
        while self.server.history.end_of_wal <= self.discarded_wal_end {
            self.write_more();
        }
    }

    /// The server's address leads to another database cluster.
    pub(super) fn replace_the_server(&mut self) -> Injection {
        self.replace_the_history(Fault::ExchangeServer, |world, until| {
            world.server.replace_cluster(&mut world.random, until);
            world.drop_counts_of_lost_history();
            for _ in 0..world.random.below(6) {
                world.write_more();
            }
            Some(0)
        })
    }

    /// Replaces the history. `exchange` returns the position up to which the old history is left,
    /// or None if nothing could be done. A router must ask for a person if the witness names a
    /// later transaction, and may do so otherwise.
    fn replace_the_history(
        &mut self,
        fault: Fault,
        exchange: impl FnOnce(&mut Self, Moment) -> Option<u64>,
    ) -> Injection {
        if !self.is_noticeable() {
            return Injection::NotApplicable;
        }
        let Some(recorded) = self.kafka.state.best() else { return Injection::NotApplicable };
        let until = self.some_time_soon();
        self.discarded_wal_end = self.discarded_wal_end.max(self.server.history.end_of_wal);
        let held_marks = self.server.held.marks_since(recorded.held_table);
        let Some(left) = exchange(self, until) else { return Injection::NotApplicable };
        let last = recorded.last.map(|last| last.end_lsn.as_u64());
        // A session begins its record with what it has read, and may not have written it yet. What
        // an earlier session, which has lost the slot, had acknowledged since does not count.
        let is_later = last.is_some_and(|last| last > left);
        let held = self.server.held.table.mark();
        let has_lost_held_events = held_marks.iter().all(|mark| held.lacks(*mark));
        let is_due =
            left == 0 || (is_later || has_lost_held_events) && !self.is_outranked(&recorded);
        // A router that has not noticed the change may still write what it produced.
        self.checker.note_interruption();
        self.expected_failure.allow(fault.causes());
        if is_due {
            self.expected_failure.require();
        }
        Injection::Done
    }

    fn restore(&mut self, to: u64, slot: RestoredSlot, timeline: RestoredTimeline, until: Moment) {
        self.server.restore(to, slot, timeline, until);
        self.drop_counts_of_lost_history();
    }

    /// Takes the counts back, before anything is written after the cut.
    fn drop_counts_of_lost_history(&mut self) {
        let end = self.server.history.end_of_wal;
        self.checker.truncate_history(&self.server.history);
        self.lost_status_update = self.lost_status_update.min(end);
        self.lost_beside_sql = self.lost_beside_sql.min(end);
        self.late_witness_position = self.late_witness_position.min(end);
        self.refused_event = None;
    }

    /// The brokers' addresses lead to another Kafka cluster, to which somebody has copied the
    /// events.
    pub(super) fn replace_kafka(&mut self) -> Injection {
        if !self.is_noticeable() {
            return Injection::NotApplicable;
        }
        self.kafka.clusters += 1;
        self.kafka.late_batches.clear();
        if self.random.one_in(3) {
            // The state topic was not copied.
            self.kafka.state.clear();
            self.is_state_topic_lost = true;
            self.checker.forget_released();
        }
        self.fail_every_producer();
        self.expected_failure.allow(Fault::ExchangeKafka.causes());
        if !self.is_state_topic_lost {
            self.expected_failure.require();
        }
        Injection::Done
    }

    /// Every producer ends with an error, and nothing of its queue is stored any more.
    fn fail_every_producer(&mut self) {
        self.kafka.state.late_writes.clear();
        for router in 0..self.routers.len() {
            if let Some(producer) = &mut self.routers[router].producer {
                producer.drop_unstored();
            }
            self.fail_producer(router);
        }
        self.checker.note_interruption();
    }

    /// A broker that lacks the latest writes becomes the leader of the state topic's partition, and
    /// producers notice that. The slot shows the loss: it stands past what is left of the witness.
    /// Of several routers one may have its own record in mind, which covers that.
    pub(super) fn lose_the_latest_writes(&mut self) -> Injection {
        let Some(key) = self.kafka.state.best_key().filter(|_| self.is_noticeable()) else {
            return Injection::NotApplicable;
        };
        // Events that the lost writes cover are sent again where the slot was taken back as well.
        let before = self.kafka.state.best();
        self.note_late_witness(before.as_ref());
        let writes = self.kafka.state.writes();
        let lost = 1 + self.random.index(6);
        self.kafka.state.keep(writes.saturating_sub(lost));
        self.fail_every_producer();
        // Former writes of every process are gone: none is stored behind what it writes next.
        self.routers.iter_mut().for_each(|router| router.standing = None);
        self.expected_failure.allow(Fault::LoseWrites.causes());
        let Some(left) = self.kafka.state.best() else {
            self.is_state_topic_lost = true;
            self.checker.forget_released();
            return Injection::Done;
        };
        let is_known = self.routers.len() == 1 && self.kafka.state.has(&key);
        if let Some(slot) = self.server.slot.as_mut().filter(|_| is_known)
            && slot.confirmed > left.position.as_u64()
        {
            // No crash takes the slot back behind it.
            slot.saved = slot.confirmed;
            self.expected_failure.require();
        }
        Injection::Done
    }

    /// The state topic can be neither read nor written for a while.
    pub(super) fn make_the_state_topic_unavailable(&mut self) -> Injection {
        self.kafka.state.is_leaderless = true;
        self.schedule_repair(AT_ONCE, Repair::State);
        Injection::Done
    }

    /// The state topic is deleted and re-created. A router may know less than the deleted records
    /// said.
    pub(super) fn delete_the_state_topic(&mut self) -> Injection {
        self.checker.note_interruption();
        self.kafka.state.delete();
        self.is_state_topic_lost = true;
        self.checker.forget_released();
        self.expected_failure.allow(&[Code::SlotMoved]);
        self.schedule_repair(AT_ONCE, Repair::State);
        Injection::Done
    }
}
