//! What a seed means: how many workers, how the tables are marked, and which faults happen when.

use std::time::Duration;

use relay::{
    ErrorPolicy, HoldKeys, Moment, OnError, OnFailed, OutboxTable, Outboxes,
    polling::{Claimed, LeaseLength, PollerSettings, RetryPolicy, WaitsKept},
};

use super::{fault::PollingFault, shape};
use crate::{plan::Trace, random::Random};

/// How many workers there may be.
pub(super) const SLOTS: usize = 4;
/// The lease of every run.
pub const LEASE: Duration = Duration::from_secs(10);
/// Its parts.
pub const LEASE_LENGTH: LeaseLength = LeaseLength::new(LEASE);
/// How long a shutdown may take.
pub const SHUTDOWN_LIMIT: Duration = Duration::from_secs(25);

/// A fault, and when it happens.
#[derive(Debug, Clone, Copy)]
pub struct PlannedPollingFault {
    /// The step before which it happens.
    pub at: usize,
    /// What happens.
    pub fault: PollingFault,
}

/// See the module's header.
#[derive(Debug, Clone)]
pub struct PollingPlan {
    /// The seed that it is made from.
    pub seed: u64,
    /// The steps over which the faults are spread.
    pub steps: usize,
    /// How many workers there are at the start.
    pub workers: usize,
    /// How many tables are polled.
    pub tables: usize,
    /// Which of them the workers of each place have in their configuration.
    pub polled: [Polled; SLOTS],
    /// A table that the workers of a place have in their configuration, and may not read.
    pub denied: Option<Denied>,
    /// How many keys each table has. With few of them, most rows of a batch are of one key.
    pub keys: u64,
    /// The most rows that are read at a time.
    pub batch: usize,
    /// How long a table without pending rows is left alone.
    pub interval: Duration,
    /// Where waits are kept.
    pub waits: WaitsKept,
    /// Whether reading marks rows as taken.
    pub claimed: Claimed,
    /// Whether later rows of a key wait for a row that cannot be delivered.
    pub hold: HoldKeys,
    /// What becomes of such a row.
    pub on_error: OnError,
    /// Out of how many rows one cannot be delivered; zero for none.
    pub poison: u64,
    /// Whether rows are changed that are there.
    pub changes: Changes,
    /// The records that a producer takes.
    pub queue: usize,
    /// Whether a person has mended every row at the end.
    pub mended: Mended,
    /// In the order of their steps.
    pub faults: Vec<PlannedPollingFault>,
    /// Whether every event of the run is printed.
    pub trace: Trace,
}

/// Which tables a worker polls. Others may poll some of them, and not all: so it is while a table
/// is added to the configurations one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// Every one.
    All,
    /// This one alone.
    Only(usize),
}

/// What workers may not read: their role lacks a right, say, that those of the others has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denied {
    /// The place of the workers.
    pub slot: usize,
    /// The table.
    pub table: usize,
    /// When a person grants it, if one does.
    pub until: Option<Moment>,
}

/// Whether applications write into rows that are there, at any moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// They do.
    Some,
    /// Rows stay as they were written.
    None,
}

/// Whether a person has mended every row at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mended {
    /// Every row.
    All,
    /// Some cannot be delivered for ever.
    Some,
}

const STEPS: u64 = 500;
/// Each run has few kinds of faults, so that some runs have kills only.
const KINDS_MAX: usize = 4;
const FAULTS_MAX: u64 = 12;
const KEYS_MAX: u64 = 5;

impl PollingPlan {
    /// The plan of a seed.
    pub fn of_seed(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x0b01_1ed0_0b0c);
        let steps = usize::try_from(STEPS / 2 + random.below(STEPS)).expect("small");
        let all = PollingFault::COMMON;
        let kinds: Vec<PollingFault> =
            (0..=random.index(KINDS_MAX)).map(|_| all[random.index(all.len())]).collect();
        let mut faults: Vec<PlannedPollingFault> = (0..random.below(FAULTS_MAX + 1))
            .map(|_| PlannedPollingFault {
                at: random.index(steps),
                fault: kinds[random.index(kinds.len())],
            })
            .collect();
        add_long_faults(&mut faults, seed, steps);
        add_clock_jumps(&mut faults, seed, steps);
        faults.sort_by_key(|planned| planned.at);
        let mut plan = Self {
            seed,
            steps,
            workers: 1 + random.index(3),
            tables: if random.one_in(4) { 2 } else { 1 },
            polled: [Polled::All; SLOTS],
            denied: None,
            keys: 1 + random.below(KEYS_MAX),
            batch: 1 + random.index(8),
            interval: Duration::from_millis(200 + 100 * random.below(15)),
            waits: if random.one_in(2) { WaitsKept::InTable } else { WaitsKept::InMemory },
            claimed: if random.one_in(2) { Claimed::Yes } else { Claimed::No },
            hold: if random.one_in(4) { HoldKeys::No } else { HoldKeys::Yes },
            on_error: if random.one_in(2) { OnError::Halt } else { OnError::DeadLetter },
            poison: if random.one_in(3) { 0 } else { 5 + random.below(20) },
            changes: changes(seed),
            queue: 2 + random.index(20),
            mended: if random.one_in(4) { Mended::Some } else { Mended::All },
            faults,
            trace: Trace::Off,
        };
        if plan.tables > 1 && random.one_in(2) {
            // The worker of the first place has all of them, so that every table has one.
            for polled in plan.polled.iter_mut().skip(1) {
                let table = random.index(plan.tables + 1);
                *polled = if table < plan.tables { Polled::Only(table) } else { Polled::All };
            }
        }
        plan.denied = denied(seed, plan.tables);
        plan
    }

    /// Whether the workers of a place poll a table, and may read it all the time.
    pub(super) fn reads(&self, slot: usize, table: usize) -> bool {
        self.tables_of(slot).contains(&table) && self.denial(slot, table).is_none()
    }

    /// What keeps the workers of a place from reading a table, for a while or for ever.
    pub(super) fn denial(&self, slot: usize, table: usize) -> Option<Denied> {
        self.denied.filter(|denied| (denied.slot, denied.table) == (slot, table))
    }

    /// The tables that the workers of a place poll, in the order of their configuration.
    pub(super) fn tables_of(&self, slot: usize) -> Vec<usize> {
        match self.polled[slot] {
            Polled::All => (0..self.tables).collect(),
            Polled::Only(table) => vec![table],
        }
    }

    /// The same plan with only some of its faults, by their indexes in [`PollingPlan::faults`].
    #[must_use]
    pub fn with_only(&self, indexes: &[usize]) -> Self {
        let faults = indexes.iter().filter_map(|index| self.faults.get(*index).copied()).collect();
        Self { faults, ..self.clone() }
    }

    /// The settings of the core of a worker that polls these tables.
    pub(super) fn settings(&self, seed: u64, tables: &[usize]) -> PollerSettings {
        let Self { on_error, .. } = *self;
        let tables =
            tables.iter().map(|table| OutboxTable::with_defaults(shape::table_name(*table)));
        PollerSettings {
            outboxes: Outboxes { tables: tables.collect(), ..Outboxes::default() },
            batch: self.batch,
            interval: self.interval,
            lease: LEASE_LENGTH,
            retry: RetryPolicy {
                max_attempts: 3,
                max_backoff: Duration::from_secs(8),
                ..RetryPolicy::default()
            },
            on_error: ErrorPolicy {
                bad_row: on_error,
                unroutable: on_error,
                too_large: on_error,
                rejected: on_error,
            },
            hold_keys: self.hold,
            keys_max: 1_000,
            row_bytes: shape::ROW_BYTES,
            shutdown_limit: SHUTDOWN_LIMIT,
            on_failed: OnFailed::Stay,
            seed,
        }
    }
}

/// In some runs workers may not read a table, in half of these for a while. Those of the first
/// place may read every one. By numbers of their own, too.
fn denied(seed: u64, tables: usize) -> Option<Denied> {
    let random = &mut Random::new(seed ^ 0xde71_ed00);
    if !random.one_in(8) {
        return None;
    }
    let (slot, table) = (1 + random.index(SLOTS - 1), random.index(tables));
    let lease = u64::try_from(LEASE.as_millis()).expect("a short time");
    let until = random.one_in(2).then(|| random.below(2 * lease));
    let until = until.map(|millis| Moment::default() + Duration::from_millis(millis));
    Some(Denied { slot, table, until })
}

/// In a fourth of all runs rows are changed. By numbers of their own, so that all other runs are as
/// they were without.
fn changes(seed: u64) -> Changes {
    let random = &mut Random::new(seed ^ 0xc4a2_6e50);
    if random.one_in(4) { Changes::Some } else { Changes::None }
}

/// In some runs the server's clock jumps. By numbers of their own, too.
fn add_clock_jumps(faults: &mut Vec<PlannedPollingFault>, seed: u64, steps: usize) {
    let random = &mut Random::new(seed ^ 0xc10c_0a3b);
    if random.one_in(8) {
        let fault = PollingFault::ClockJumps;
        let some = 1 + random.below(3);
        faults.extend((0..some).map(|_| PlannedPollingFault { at: random.index(steps), fault }));
    }
}

/// In some runs one kind of fault takes most of the time, in half of these alone. By numbers of
/// their own, so that all other runs are as they were without.
fn add_long_faults(faults: &mut Vec<PlannedPollingFault>, seed: u64, steps: usize) {
    let random = &mut Random::new(seed ^ 0x10c6_fa17);
    if !random.one_in(8) {
        return;
    }
    if random.one_in(2) {
        faults.clear();
    }
    let fault = PollingFault::LONG[random.index(PollingFault::LONG.len())];
    let more = if fault == PollingFault::AcksWithheld { 0 } else { random.below(3) };
    faults.extend((0..=more).map(|_| PlannedPollingFault { at: random.index(steps), fault }));
}
