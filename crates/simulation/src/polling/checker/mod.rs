//! What must hold after every step, from the rows that were committed, the records that are stored
//! and the leases as the server has them. It does not rely on what the workers report.

use std::collections::{BTreeMap, BTreeSet};

use relay::{
    HoldKeys,
    polling::{Claimed, SettleRequest, Written},
};

use super::{
    kafka::{Partition, PolledKafka, SentRecord},
    leases::LeaseTable,
    plan::PollingPlan,
    producer::HandedOver,
    table::{PolledTables, Row, RowState},
};
use crate::invariant::{Invariant, Violation};

/// See the module's header.
#[derive(Debug)]
pub struct PollingChecker {
    hold: HoldKeys,
    claimed: Claimed,
    /// The most rows that one interruption may repeat.
    batch: usize,
    /// Of each content of a row, when it was handed over last.
    handed_to: BTreeMap<(usize, u64), Stretch>,
    /// The rows of each stretch that were handed over again after it.
    repeated: BTreeMap<Stretch, BTreeSet<usize>>,
    /// How often marks of a process were not written, since another one had a lease of its, or
    /// since its connection was lost.
    interruptions: BTreeMap<u64, u64>,
    /// Of each content of a row that is stored, how often.
    stored: BTreeMap<(usize, u64), u64>,
    violation: Option<Violation>,
    /// Records that repeat a row.
    pub duplicates: u64,
}

/// Who hands rows over.
#[derive(Debug, Clone, Copy)]
pub struct Handing {
    /// The process.
    pub process: u64,
    /// The producer.
    pub producer: u64,
}

/// What one interruption may repeat rows of: the time of a producer between two losses of a lease
/// or a connection of its process, since a producer outlives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stretch {
    producer: u64,
    interruptions: u64,
}

impl PollingChecker {
    /// Nothing has happened yet.
    pub fn new(plan: &PollingPlan) -> Self {
        Self {
            hold: plan.hold,
            claimed: plan.claimed,
            batch: plan.batch,
            handed_to: BTreeMap::new(),
            repeated: BTreeMap::new(),
            interruptions: BTreeMap::new(),
            stored: BTreeMap::new(),
            violation: None,
            duplicates: 0,
        }
    }

    /// The first violation.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Notes a violation.
    pub fn report(&mut self, invariant: Invariant, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { invariant, what: what() });
        }
    }

    /// A row was handed to a producer.
    pub fn handed_over(
        &mut self,
        by: Handing,
        handed: &HandedOver,
        tables: &PolledTables,
        leases: &LeaseTable,
    ) {
        let number = handed.row;
        let Some(row) = tables.rows().get(number).filter(|row| row.commit.is_some()) else {
            return self.report(Invariant::W5Duplicates, || format!("row {number} is not there"));
        };
        if !handed.is_intact || handed.content > row.content {
            self.report(Invariant::W5Duplicates, || {
                format!("the record of row {number} is another")
            });
        }
        // A person may have given the row another key since it was read.
        let holder = leases.holder(row.table, row.shard());
        if holder != Some(by.process) && row.had_key() {
            self.report(Invariant::W4OneWorker, || {
                format!("{} produces row {number}, whose shard belongs to {holder:?}", by.process)
            });
        }
        if let Some(before) = self.predecessor_missing(number, tables, |earlier| {
            let mut contents = self.handed_to.range((earlier, 0)..=(earlier, u64::MAX));
            contents.any(|(_, to)| to.producer == by.producer)
        }) {
            self.report(Invariant::W3Order, || {
                format!("row {number} is produced, and row {before} of its key was not")
            });
        }
        let interruptions = self.interruptions.get(&by.process).copied().unwrap_or_default();
        let now = Stretch { producer: by.producer, interruptions };
        let Some(former) = self.handed_to.insert((number, handed.content), now) else { return };
        if former.producer == by.producer {
            return self.report(Invariant::W5Duplicates, || {
                format!("row {number} is produced twice without an interruption")
            });
        }
        let repeated = self.repeated.entry(former).or_default();
        repeated.insert(number);
        let repeated = repeated.len();
        // Rows that wait are read beside a full batch where they hold nothing back.
        let poisoned = tables.rows().iter().filter(|row| row.first_poison.is_some()).count();
        let most = self.batch + if self.hold == HoldKeys::No { poisoned } else { 0 };
        if repeated > most {
            self.report(Invariant::W5Duplicates, || {
                let Stretch { producer, .. } = former;
                format!("{repeated} rows of producer {producer} are repeated, a batch has {most}")
            });
        }
    }

    /// A record leaves the socket.
    pub fn sent(&mut self, record: SentRecord, tables: &PolledTables, leases: &LeaseTable) {
        let row = &tables.rows()[record.row];
        let holder = leases.holder(row.table, row.shard());
        if row.had_key() && holder.is_some_and(|holder| holder != record.process) {
            self.report(Invariant::W4OneWorker, || {
                let SentRecord { row, process, .. } = record;
                format!("{process} sends row {row}, and the lease of {holder:?} has begun")
            });
        }
    }

    /// A record is stored.
    pub fn stored(&mut self, record: SentRecord, tables: &PolledTables) {
        let times = self.stored.entry((record.row, record.content)).or_default();
        *times += 1;
        self.duplicates += u64::from(*times > 1);
        if let Some(before) = self.predecessor_missing(record.row, tables, |_| false) {
            self.report(Invariant::W3Order, || {
                format!("row {} is stored before row {before} of its key", record.row)
            });
        }
    }

    /// Rows of which another worker has a shard by now are not marked, so they come again; and so
    /// do those that were read on a connection that is lost.
    pub fn interrupted(&mut self, process: u64, request: &SettleRequest, written: Written) {
        if written != Written::Yes {
            *self.interruptions.entry(process).or_default() += 1;
            for sent in &request.published {
                let number = PolledTables::number(&sent.row().id);
                self.handed_to.retain(|(row, _), _| *row != number);
            }
        }
    }

    /// What became of rows is about to be written.
    pub fn settling(&mut self, request: &SettleRequest, tables: &PolledTables) {
        for sent in &request.published {
            let row = PolledTables::number(&sent.row().id);
            if !self.is_stored(row) {
                self.report(Invariant::W2MarkedEarly, || {
                    format!("row {row} is marked, and no broker has it")
                });
            }
        }
        for failed in &request.failed {
            let row = PolledTables::number(&failed.id);
            if tables.rows()[row].first_poison.is_none() {
                self.report(Invariant::W9Blame, || {
                    format!(
                        "row {row} counts as failed ({}), and nothing is wrong with it",
                        failed.error
                    )
                });
            }
        }
    }

    /// What became of rows is written.
    pub fn settled(&mut self, request: &SettleRequest, tables: &PolledTables) {
        for sent in &request.published {
            let number = PolledTables::number(&sent.row().id);
            let row = &tables.rows()[number];
            let is_lost = row.state == RowState::Published && row.is_visible();
            if is_lost && !self.stored.contains_key(&(number, row.content)) {
                self.report(Invariant::R2LastVersion, || {
                    format!("row {number} is marked, and what was written into it last is nowhere")
                });
            }
        }
        for failed in &request.failed {
            let number = PolledTables::number(&failed.id);
            let row = &tables.rows()[number];
            if row.state == RowState::Abandoned && row.poison.is_none() {
                self.report(Invariant::W9Blame, || {
                    format!("row {number} is abandoned, and nothing is wrong with it any more")
                });
            }
        }
    }

    /// Whether a broker has the row, whatever was written into it since.
    fn is_stored(&self, row: usize) -> bool {
        self.stored.range((row, 0)..=(row, u64::MAX)).next().is_some()
    }

    /// Those of these rows whose shard belongs to a process.
    pub fn held_of(
        &self,
        process: u64,
        mut rows: Vec<usize>,
        tables: &PolledTables,
        leases: &LeaseTable,
    ) -> Vec<usize> {
        rows.retain(|number| {
            let row = &tables.rows()[*number];
            leases.holder(row.table, row.shard()) == Some(process)
        });
        rows
    }

    /// A process that had the shards of these rows, which are in flight, was answered.
    pub fn given_back(
        &mut self,
        process: u64,
        rows: &[usize],
        tables: &PolledTables,
        leases: &LeaseTable,
    ) {
        let is_lost = |number: &&usize| {
            let row = &tables.rows()[**number];
            row.had_key() && leases.holder(row.table, row.shard()) != Some(process)
        };
        if let Some(row) = rows.iter().find(is_lost) {
            self.report(Invariant::W4OneWorker, || {
                format!("{process} gives back the shard of row {row}, which is in flight")
            });
        }
    }

    /// Everything that can be delivered has to be, and in order.
    pub fn at_end(&mut self, tables: &PolledTables, kafka: &PolledKafka) {
        for (number, row) in tables.rows().iter().enumerate().filter(|(_, row)| row.is_visible()) {
            if !self.is_deliverable(row, tables) {
                continue;
            }
            let is_stored = self.stored.contains_key(&(number, row.content));
            if row.state != RowState::Published || !is_stored {
                self.report(Invariant::W1Complete, || {
                    let stored = if is_stored { "stored" } else { "not stored" };
                    format!("row {number} is {:?} at the end, and {stored}", row.state)
                });
            }
        }
        self.check_last_records(tables, kafka);
    }

    /// Whether a row is not marked that can be delivered.
    pub fn has_pending(&self, tables: &PolledTables) -> bool {
        let is_pending = |row: &Row| row.is_visible() && row.state != RowState::Published;
        tables.rows().iter().any(|row| is_pending(row) && self.is_deliverable(row, tables))
    }

    /// Whether nothing holds a row back for ever.
    fn is_deliverable(&self, row: &Row, tables: &PolledTables) -> bool {
        let holds = |other: &Row| {
            other.is_visible()
                && other.table == row.table
                && other.poison.is_some()
                && other.row_key() == row.row_key()
        };
        row.poison.is_none() && (self.hold == HoldKeys::No || !tables.rows().iter().any(holds))
    }

    /// The last record of a row comes before the last record of a later row of its key.
    fn check_last_records(&mut self, tables: &PolledTables, kafka: &PolledKafka) {
        let mut last = BTreeMap::<usize, (Partition, usize)>::new();
        for (partition, log) in &kafka.log {
            for (offset, record) in log.iter().enumerate() {
                last.insert(record.row, (*partition, offset));
            }
        }
        for (row, (partition, offset)) in &last {
            if tables.rows()[*row].state != RowState::Published {
                // It comes again.
                continue;
            }
            let behind = self.predecessors(*row, tables).into_iter().find(|earlier| {
                // What is written into a row later comes later.
                let is_behind =
                    |(other, at): &(Partition, usize)| other == partition && at > offset;
                !tables.rows()[*earlier].is_changed() && last.get(earlier).is_some_and(is_behind)
            });
            if let Some(earlier) = behind {
                self.report(Invariant::W3Order, || {
                    format!("the last record of row {earlier} is behind that of row {row}")
                });
            }
        }
    }

    /// A row of the same key that must have come before this one, and has not.
    fn predecessor_missing(
        &self,
        row: usize,
        tables: &PolledTables,
        is_ahead: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut earlier = self.predecessors(row, tables).into_iter();
        earlier.find(|earlier| {
            !tables.rows()[*earlier].is_deleted && !self.is_stored(*earlier) && !is_ahead(*earlier)
        })
    }

    /// The rows of the same key that come before this one by the table's order, and had the key
    /// before this one was committed, so that whoever reads this one sees them.
    fn predecessors(&self, number: usize, tables: &PolledTables) -> Vec<usize> {
        let rows = tables.rows();
        let row = &rows[number];
        if !row.had_key() {
            return Vec::new();
        }
        let is_of_key = |other: &Row| other.table == row.table && other.key == row.key;
        let poisons = |other: &Row| is_of_key(other) && other.first_poison.is_some();
        if self.hold == HoldKeys::No && (self.claimed == Claimed::Yes || rows.iter().any(poisons)) {
            // Nothing waits for a row that waits.
            return Vec::new();
        }
        let before = |other: &Row| {
            is_of_key(other)
                && other.keyed.zip(row.commit).is_some_and(|(keyed, commit)| keyed < commit)
        };
        (0..number).filter(|other| before(&rows[*other])).collect()
    }
}

#[cfg(test)]
mod tests;
