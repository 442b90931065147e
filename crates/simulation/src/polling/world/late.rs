//! What comes too late: the answers to readings, and acknowledgements.

use std::time::Duration;

use relay::Moment;

use super::PollingWorld;
use crate::{
    invariant::Invariant,
    polling::{
        late::ReadLate,
        plan::{LEASE, LEASE_LENGTH},
        process::{Asked, Call, Statement, StatementAnswer},
        producer::PolledProducer,
    },
};

/// How long a reading takes that is slow: a little longer than what it has read counts.
const SLOW: Duration = Duration::from_millis(5_500);
/// How long everything takes while nothing but acknowledgements is late.
const TURN: Duration = Duration::from_millis(100);
/// The waits before records are handed over again, while none is acknowledged, in seconds.
const WAITS: [u64; 8] = [0, 1, 2, 4, 8, 16, 32, 60];
/// So often more than these waits allow. Some records of a batch may be acknowledged, and the rows
/// of others may be given to another worker and come back.
const SLACK: usize = 2;

impl PollingWorld {
    /// The readings of a worker are slow for a while.
    pub(super) fn read_slowly(&mut self, slot: usize) {
        let until = self.at + self.some_time(LEASE * 6);
        if let Some(process) = &self.slots[slot].process {
            self.late.slow_until.insert(process.number, until);
        }
    }

    /// Brokers store records, and acknowledge nothing for a while, in which everything else goes
    /// well: how often records are stored is then a matter of the waits alone.
    pub(super) fn withhold_acks(&mut self) {
        while self.tables.open() > 0 && self.database_down_until.is_none() {
            self.tables.commit(0);
        }
        self.late.silent_until = self.at + LEASE * 2 + self.some_time(LEASE * 8);
        self.late.handed_over.clear();
        while self.late.is_silent(self.at) && self.checker.violation().is_none() {
            self.all_goes_well(TURN);
            self.starve();
        }
    }

    /// Processes that get little time get none from when they would give records up until their
    /// producers have.
    fn starve(&mut self) {
        if !self.late.is_starved {
            return;
        }
        let at = self.at;
        for slot in &mut self.slots {
            let Some(process) = slot.process.as_mut().filter(|process| process.runs()) else {
                continue;
            };
            let oldest = process.producer.as_ref().and_then(PolledProducer::oldest);
            if oldest.is_some_and(|since| since + LEASE_LENGTH.unacknowledged() <= at + TURN) {
                process.frozen_until = Some(at + LEASE / 10);
            }
        }
    }

    /// Whether the answer to a worker's reading is still under way.
    pub(super) fn is_reading(&self, slot: usize) -> bool {
        let Some(process) = &self.slots[slot].process else { return false };
        let slow_until = self.late.slow_until.get(&process.number).copied().unwrap_or_default();
        match &process.statement {
            Some(Asked { at, call: Call::Answered(StatementAnswer::Fetched(_)) }) => {
                *at < slow_until && self.at < *at + SLOW
            }
            Some(_) | None => false,
        }
    }

    /// A worker is about to be told how many rows were read, for which it has asked at this time.
    pub(super) fn was_read(&mut self, slot: usize, rows: usize, asked_at: Moment) {
        let Some(process) = &self.slots[slot].process else { return };
        let Some(table) = self.late.reading.get(&process.number).copied() else { return };
        if rows > 0 && self.at >= asked_at + LEASE_LENGTH.producing() {
            let claims_lost = process.core.report(self.at).claims_lost;
            let late = ReadLate { table, at: self.at, claims_lost };
            self.late.read_late.insert(process.number, late);
        } else {
            self.late.read_late.remove(&process.number);
        }
    }

    /// Rows that were read too late are not read again at once: that would never end.
    pub(super) fn check_reading(&mut self, slot: usize, statement: &Statement) {
        let Statement::Fetch(request) = statement else { return };
        let Some(process) = &self.slots[slot].process else { return };
        let number = process.number;
        self.late.reading.insert(number, request.table);
        let Some(late) = self.late.read_late.get(&number) else { return };
        let is_soon = late.table == request.table && self.at < late.at + LEASE_LENGTH.producing();
        // Without a lease it was this process that was stopped or cut off.
        if is_soon && process.core.report(self.at).claims_lost == late.claims_lost {
            let passed = self.at.since(late.at);
            self.checker.report(Invariant::W6Rest, || {
                format!("{number} has read rows too late, and reads them again after {passed:?}")
            });
        }
    }

    /// While nothing is acknowledged, a row is handed over more and more rarely.
    pub(super) fn check_copies(&mut self, process: u64, row: usize) {
        // What it has read was not too late for it.
        self.late.read_late.remove(&process);
        if !self.late.is_alone || !self.late.is_silent(self.at) {
            return;
        }
        let times = self.late.handed_over.entry((process, row)).or_default();
        times.push(self.at);
        let passed = self.at.since(times[0]);
        let waits =
            WAITS.iter().map(|wait| LEASE_LENGTH.unacknowledged() + Duration::from_secs(*wait));
        let least: Duration = waits.take((times.len() - 1).saturating_sub(SLACK)).sum();
        if passed < least {
            let times = times.len();
            self.checker.report(Invariant::W5Duplicates, || {
                format!(
                    "{process} produces row {row} {times} times in {passed:?}, and nothing is \
                     acknowledged"
                )
            });
        }
    }
}
