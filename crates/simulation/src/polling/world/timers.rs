//! Time passes.

use std::time::Duration;

use relay::{Moment, polling::PollInput};

use super::{PollingWorld, SLOTS};
use crate::{
    invariant::Invariant,
    polling::process::{Asked, Call},
};

/// How often something may happen within one stretch of time before it counts as spinning.
const WAKES_MAX: usize = 3_000;

impl PollingWorld {
    /// Time passes, and everything that is due in it happens.
    pub(super) fn advance(&mut self, stretch: Duration) {
        let until = self.at + stretch;
        for _ in 0..WAKES_MAX {
            let next = self.next_timer().map_or(until, |timer| timer.max(self.at)).min(until);
            if next > self.at {
                self.slots.iter_mut().filter_map(|slot| slot.process.as_mut()).for_each(
                    |process| {
                        process.requests = 0;
                    },
                );
            }
            self.at = next;
            self.fire();
            if next >= until {
                return;
            }
        }
        self.checker.report(Invariant::W6Rest, || {
            format!("workers were woken {WAKES_MAX} times within {stretch:?}")
        });
    }

    fn next_timer(&self) -> Option<Moment> {
        let of_slots = self.slots.iter().filter_map(|slot| {
            let Some(process) = &slot.process else { return slot.start_at };
            let wire = process.producer.as_ref().and_then(|producer| {
                let due = |partition| producer.arriving(partition).map(|(_, by)| by);
                producer.on_wire().into_iter().filter_map(due).min()
            });
            if process.frozen_until.is_some() {
                return process.frozen_until.into_iter().chain(wire).min();
            }
            let scan =
                process.producer.as_ref().filter(|one| one.in_flight() > 0 && !one.is_closed());
            let scan = scan.map(|producer| producer.scan_at);
            let lease = Self::lease_answer_due(process);
            [process.wake_at, process.producer_at, lease, scan, wire].into_iter().flatten().min()
        });
        let orphans = self.orphans.iter().map(|orphan| orphan.due);
        let strays = self.kafka.strays.iter().map(|stray| stray.lost_at);
        let outages = [self.database_down_until, self.kafka.down_until];
        let outages = outages.into_iter().chain(self.kafka.missing_until).flatten();
        of_slots.chain(orphans).chain(strays).chain(outages).min()
    }

    /// Everything that is due now.
    fn fire(&mut self) {
        let at = self.at;
        let is_over = |until: &mut Option<Moment>| {
            if until.is_some_and(|until| until <= at) {
                *until = None;
            }
        };
        is_over(&mut self.database_down_until);
        is_over(&mut self.kafka.down_until);
        self.kafka.missing_until.iter_mut().for_each(is_over);
        self.kafka.lose_strays(at);
        self.carry_out_orphans();
        for slot in 0..SLOTS {
            self.everything_due_arrives(slot);
            if self.slots[slot].start_at.is_some_and(|start| start <= at) {
                self.start(slot);
            }
            self.thaw_if_due(slot);
            self.fire_of(slot);
        }
    }

    fn fire_of(&mut self, slot: usize) {
        let at = self.at;
        let is_due = |due: Option<Moment>| due.is_some_and(|due| due <= at);
        let Some(process) = self.slots[slot].process.as_mut().filter(|process| process.runs())
        else {
            return;
        };
        let has_failed = process.producer.as_mut().is_some_and(|producer| {
            producer.scan(at);
            producer.has_failed()
        });
        let (wakes, makes) = (is_due(process.wake_at), is_due(process.producer_at));
        let gives_up = is_due(Self::lease_answer_due(process));
        let is_answered = matches!(process.lease, Some(Asked { call: Call::Answered(_), .. }));
        if has_failed {
            // The process reads the report at once, but other threads may be faster.
            if self.random.one_in(2) {
                self.send(slot);
            }
            self.collect_all(slot);
        }
        if gives_up {
            // A process that was stopped meanwhile finds the answer in its socket.
            if is_answered {
                self.deliver_lease(slot);
            } else {
                self.give_up_lease_request(slot);
            }
        }
        if makes {
            self.producer_is_made(slot);
        }
        if wakes {
            self.input(slot, PollInput::Tick);
        }
    }

    /// A process that was stopped goes on, its threads in any order.
    pub(super) fn thaw_if_due(&mut self, slot: usize) {
        let at = self.at;
        let sends_first = self.random.one_in(2);
        let Some(process) = &mut self.slots[slot].process else { return };
        if process.frozen_until.is_none_or(|until| until > at) {
            return;
        }
        process.frozen_until = None;
        let number = process.number;
        let is_asked_to_stop = std::mem::take(&mut process.is_asked_to_stop);
        if process.stop_asked_at.is_some() {
            process.stop_asked_at = Some(at);
        }
        if let Some(producer) = &mut process.producer {
            let is_amid_pass = producer.is_amid_pass();
            producer.goes_on(at);
            // Of a process that produces nothing more, what some threads may send before others
            // notice is not simulated.
            if !is_amid_pass {
                producer.close_if_late(at);
            }
        }
        self.trace(|| format!("{number} goes on"));
        if sends_first {
            self.send(slot);
        }
        if self.late.is_starved && self.late.is_silent(at) {
            self.collect_all(slot);
        }
        match self.random.below(4) {
            0 => self.deliver_statement(slot),
            1 => self.collect(slot),
            2 => self.deliver_lease(slot),
            _ => {}
        }
        if is_asked_to_stop {
            self.input(slot, PollInput::Shutdown);
        }
        self.input(slot, PollInput::Tick);
    }
}
