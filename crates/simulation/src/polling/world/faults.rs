//! What can go wrong, happens.

use std::time::Duration;

use relay::{Code, Failure, polling::PollInput};

use super::{OrphanStatement, PollingWorld, SLOTS, some_time};
use crate::{
    polling::{
        clock::Jump,
        fault::PollingFault,
        plan::{LEASE, LEASE_LENGTH},
        process::{Afterwards, Asked, Call, Mishap},
        producer::PolledProducer,
    },
    random::Random,
};

impl PollingWorld {
    /// Makes a fault happen. Returns whether it took effect.
    pub(super) fn inject(&mut self, fault: PollingFault) -> bool {
        let Some(slot) = self.some_process() else {
            return fault == PollingFault::Join && self.join();
        };
        match fault {
            PollingFault::Kill => self.kill_now_or_amid_records(slot),
            PollingFault::Freeze => self.freeze(slot),
            PollingFault::FreezeAmidPass => return self.freeze_amid_pass(slot),
            PollingFault::Stop => self.stop(slot, Afterwards::Restart),
            PollingFault::Join => return self.join(),
            PollingFault::Leave => {
                let running = self.slots.iter().filter(|slot| slot.process.is_some()).count();
                if running < 2 {
                    return false;
                }
                self.stop(slot, Afterwards::Gone);
            }
            PollingFault::LeaseRefused => self.lease_mishap(slot, Mishap::Refused),
            PollingFault::LeaseAnswerLost => self.lease_mishap(slot, Mishap::AnswerLost),
            PollingFault::LeaseCutOff => {
                let until = self.at + self.some_time(LEASE * 3 / 2);
                if let Some(process) = &mut self.slots[slot].process {
                    process.lease_cut_until = until;
                }
            }
            PollingFault::ServerCutOff => {
                let length = LEASE + self.some_time(LEASE * 4);
                if self.random.one_in(2) {
                    self.cut_off(slot, length);
                } else if let Some(process) = &mut self.slots[slot].process {
                    process.cut_off_at_marks = Some(length);
                }
            }
            PollingFault::StatementFails => self.statement_mishap(slot, Mishap::Refused),
            PollingFault::StatementAnswerLost => self.statement_mishap(slot, Mishap::AnswerLost),
            PollingFault::DatabaseCrash => {
                let back_at = self.at + self.some_time(LEASE);
                self.crash_database(back_at);
            }
            PollingFault::BrokerOutage => {
                self.disconnect_brokers();
                self.kafka.down_until = Some(self.at + self.some_time(LEASE * 2));
            }
            PollingFault::ProducerFails => return self.fail_producer(slot),
            PollingFault::TopicMissing => {
                let topic = self.random.index(self.kafka.missing_until.len());
                self.kafka.missing_until[topic] = Some(self.at + self.some_time(LEASE * 2));
            }
            PollingFault::SlowReading => self.read_slowly(slot),
            PollingFault::AcksWithheld => self.withhold_acks(),
            PollingFault::ClockJumps => return self.jump(),
        }
        true
    }

    fn some_process(&mut self) -> Option<usize> {
        let running: Vec<usize> =
            (0..SLOTS).filter(|slot| self.slots[*slot].process.is_some()).collect();
        (!running.is_empty()).then(|| running[self.random.index(running.len())])
    }

    fn kill_now_or_amid_records(&mut self, slot: usize) {
        if self.random.one_in(2) {
            self.kill(slot);
        } else if let Some(process) = &mut self.slots[slot].process {
            process.is_killed_amid_records = true;
        }
    }

    /// Kills a process that is to be killed amid its records, if it is there.
    pub(super) fn kill_if_amid_records(&mut self, slot: usize) {
        let is_due = self.slots[slot].process.as_ref().is_some_and(|process| {
            let mut producer = process.producer.iter();
            process.is_killed_amid_records && producer.any(PolledProducer::is_amid_records)
        });
        if is_due {
            self.kill(slot);
        }
    }

    /// For so long a process reaches no server.
    pub(super) fn cut_off(&mut self, slot: usize, length: Duration) {
        let until = self.at + length;
        if let Some(process) = &mut self.slots[slot].process {
            process.cut_off_at_marks = None;
            process.lease_cut_until = until;
            process.statements_cut_until = until;
        }
    }

    /// SIGKILL. What it has asked may still be carried out, and what has left its socket stored.
    fn kill(&mut self, slot: usize) {
        self.purge(slot);
        let Some(process) = self.slots[slot].process.take() else { return };
        self.trace(|| format!("{} is killed", process.number));
        if let Some(Asked { call: Call::Asked(request), .. }) = process.lease {
            self.may_come_late(
                process.number,
                OrphanStatement::Lease(process.lease_number, request),
            );
        }
        if let Some(Asked { call: Call::Asked(statement), .. }) = process.statement {
            let statement = OrphanStatement::Rows(statement, process.session);
            self.may_come_late(process.number, statement);
        }
        self.start_again(slot, process.afterwards);
    }

    pub(super) fn start_again(&mut self, slot: usize, afterwards: Afterwards) {
        if afterwards == Afterwards::Restart {
            self.slots[slot].start_at = Some(self.at + self.some_time(Duration::from_secs(3)));
        }
    }

    /// SIGSTOP for a while.
    pub(super) fn freeze(&mut self, slot: usize) {
        let until = self.at + stopped_for(&mut self.random);
        if let Some(process) = &mut self.slots[slot].process
            && process.frozen_until.is_none()
        {
            process.frozen_until = Some(until);
            let number = process.number;
            self.trace(|| format!("{number} is frozen"));
        }
    }

    fn freeze_amid_pass(&mut self, slot: usize) -> bool {
        let after = 1 + self.random.index(4);
        let process = self.slots[slot].process.as_mut();
        let Some(producer) = process.and_then(|process| process.producer.as_mut()) else {
            return false;
        };
        producer.freeze_after = Some(after);
        true
    }

    fn stop(&mut self, slot: usize, afterwards: Afterwards) {
        if let Some(process) = &mut self.slots[slot].process {
            process.afterwards = afterwards;
            if process.runs() {
                self.input(slot, PollInput::Shutdown);
            } else {
                process.is_asked_to_stop = true;
            }
        }
    }

    fn join(&mut self) -> bool {
        let is_free = |slot: &usize| {
            self.slots[*slot].process.is_none() && self.slots[*slot].start_at.is_none()
        };
        match (0..SLOTS).find(is_free) {
            Some(slot) => {
                self.start(slot);
                true
            }
            None => false,
        }
    }

    /// PostgreSQL's clock jumps, unless it has jumped within a lease: two would be a longer one.
    fn jump(&mut self) -> bool {
        let by = self.some_time(LEASE / 10 - Duration::from_millis(1));
        let jump = if self.random.one_in(2) { Jump::Forwards(by) } else { Jump::Backwards(by) };
        let has_jumped = self.clock.jump(jump, self.at);
        if has_jumped {
            self.trace(|| format!("the server's clock jumps {jump:?}"));
        }
        has_jumped
    }

    fn lease_mishap(&mut self, slot: usize, mishap: Mishap) {
        if let Some(process) = &mut self.slots[slot].process {
            process.lease_mishap = Some(mishap);
        }
    }

    fn statement_mishap(&mut self, slot: usize, mishap: Mishap) {
        if let Some(process) = &mut self.slots[slot].process {
            process.statement_mishap = Some(mishap);
        }
    }

    fn fail_producer(&mut self, slot: usize) -> bool {
        let process = self.slots[slot].process.as_mut();
        let Some(producer) = process.and_then(|process| process.producer.as_mut()) else {
            return false;
        };
        producer.fail(None, Failure::new(Code::ProducerFatal, "the producer must not go on"));
        true
    }
}

/// For how long SIGSTOP stops a process: up to more than two leases, or about as long as a producer
/// keeps a record, so that some of its records are given up and others are not.
pub(super) fn stopped_for(random: &mut Random) -> Duration {
    if random.one_in(2) {
        return some_time(random, LEASE * 5 / 2);
    }
    LEASE_LENGTH.unacknowledged() + some_time(random, LEASE / 10)
}
