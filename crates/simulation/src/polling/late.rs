//! What comes too late: which answers and acknowledgements do, and what workers have done since.

use std::collections::BTreeMap;

use relay::{Moment, polling::TableIndex};

use super::{fault::PollingFault, plan::PollingPlan};
use crate::random::Random;

/// See the module's header.
#[derive(Debug, Default)]
pub struct Late {
    /// Whether nothing else goes wrong, so that records are handed over again for no other reason.
    pub is_alone: bool,
    /// Whether processes get little time while brokers acknowledge nothing: then they hear of the
    /// producer that a record is given up before they would have given it up themselves.
    pub is_starved: bool,
    /// Until when readings of each process are slow.
    pub slow_until: BTreeMap<u64, Moment>,
    /// What each process reads, or has read last.
    pub reading: BTreeMap<u64, TableIndex>,
    /// What each process has read too late.
    pub read_late: BTreeMap<u64, ReadLate>,
    /// Until when brokers acknowledge nothing.
    pub silent_until: Moment,
    /// When each process has handed over each row since they began to.
    pub handed_over: BTreeMap<(u64, usize), Vec<Moment>>,
}

/// Rows that were read too late to be produced.
#[derive(Debug, Clone, Copy)]
pub struct ReadLate {
    /// The table.
    pub table: TableIndex,
    /// When the process was told.
    pub at: Moment,
    /// How many batches the process had given up because of its lease.
    pub claims_lost: u64,
}

impl Late {
    /// Nothing is late yet.
    pub fn new(plan: &PollingPlan) -> Self {
        let mut faults = plan.faults.iter();
        let is_alone = faults.all(|planned| planned.fault == PollingFault::AcksWithheld);
        let is_starved = Random::new(plan.seed ^ 0x57a2_7ed0).one_in(2);
        Self { is_alone: is_alone && plan.poison == 0, is_starved, ..Self::default() }
    }

    /// Nothing is late any more.
    pub fn end(&mut self) {
        self.slow_until.clear();
        self.silent_until = Moment::default();
    }

    /// Whether brokers acknowledge nothing of what they store.
    pub fn is_silent(&self, at: Moment) -> bool {
        at < self.silent_until
    }
}
