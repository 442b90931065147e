//! What workers believe to hold.

use relay::polling::{SHARDS, ShardSet};

use super::{PollingWorld, SLOTS};
use crate::invariant::Invariant;

impl PollingWorld {
    /// No two workers that run hold the same shard, as they see it. One that has more than its
    /// share of a table reads nothing of it, so it counts as holding nothing; one that may not
    /// always read a table may have given back what it still counts, and is left out. For a lease
    /// after a jump of the server's clock a worker may still count on shards that another one has
    /// been given; it produces nothing of them, which the checker sees.
    pub(super) fn check_beliefs(&mut self) {
        if self.clock.has_jumped(self.at) {
            return;
        }
        let mut of_tables = vec![ShardSet::NONE; self.plan.tables];
        for slot in 0..SLOTS {
            let Some(process) = self.slots[slot].process.as_ref().filter(|one| one.runs()) else {
                continue;
            };
            let report = process.core.report(self.at);
            let number = process.number;
            self.coverage.state(report.state);
            let of_process = process.tables.iter().zip(&process.workers);
            for ((index, workers), table) in of_process.zip(&report.tables) {
                let is_excess = table.shards.len() > SHARDS.div_ceil((*workers).max(1));
                if is_excess || !self.plan.reads(slot, *index) {
                    continue;
                }
                let all = &mut of_tables[*index];
                let twice = table.shards.iter().find(|shard| all.contains(*shard));
                if let Some(shard) = twice {
                    self.checker.report(Invariant::W7Shards, || {
                        format!("{number} and another worker hold shard {shard} of {}", table.name)
                    });
                }
                *all = table.shards.iter().fold(*all, ShardSet::with);
            }
        }
    }

    /// The counts of a worker that ends, or is left at the end.
    pub(super) fn count(&mut self, slot: usize) {
        let Some(process) = &self.slots[slot].process else { return };
        let report = process.core.report(self.at);
        self.coverage.state(report.state);
        self.coverage.claims_lost += report.claims_lost;
        self.coverage.changed += report.tables.iter().map(|table| table.changed).sum::<u64>();
        self.coverage.abandoned += report.tables.iter().map(|table| table.abandoned).sum::<u64>();
        report.errors.iter().for_each(|(code, times)| self.coverage.code(*code, *times));
    }
}
