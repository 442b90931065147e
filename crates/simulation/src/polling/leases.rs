//! The table of leases, by the server's clock.

use std::{collections::BTreeMap, time::Duration};

use relay::{
    Moment,
    polling::{Leases, RequestNumber, SHARDS, ShardSet, TableLeases},
    source::Oid,
};

use super::shape;
use crate::random::Random;

/// See the module's header.
#[derive(Debug)]
pub struct LeaseTable {
    /// Of each table, by shard.
    tables: Vec<Vec<Lease>>,
    /// Of each table, until when each of its workers counts as alive, by the number of its process.
    seen_until: Vec<BTreeMap<u64, Moment>>,
    /// The number of the last request of each process. What comes later and was asked earlier does
    /// nothing: it would give back what the process has relied on since.
    last: BTreeMap<u64, RequestNumber>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Lease {
    holder: Option<u64>,
    expires_at: Moment,
    /// The request of the holder that took it.
    request: RequestNumber,
}

impl LeaseTable {
    /// Leases that nobody holds.
    pub fn new(tables: usize) -> Self {
        let shards = usize::try_from(SHARDS).expect("a few");
        Self {
            tables: vec![vec![Lease::default(); shards]; tables],
            seen_until: vec![BTreeMap::new(); tables],
            last: BTreeMap::new(),
        }
    }

    /// Whether a request was asked after every other one that was carried out for the process.
    pub fn is_next(&mut self, process: u64, number: RequestNumber) -> bool {
        let last = self.last.entry(process).or_default();
        let is_next = number > *last;
        *last = number.max(*last);
        is_next
    }

    /// One request: renews what the process holds, gives back what is more than is wanted of each
    /// table that it polls, or takes what is free or expired up to that.
    pub fn hold(
        &mut self,
        (process, request): (u64, RequestNumber),
        wanted: &[(usize, u32)],
        length: Duration,
        now: Moment,
        random: &mut Random,
    ) -> Leases {
        let mut answer = Vec::new();
        for (table, wanted) in wanted {
            let wanted = usize::try_from(*wanted).expect("a few");
            let (leases, seen_until) = (&mut self.tables[*table], &mut self.seen_until[*table]);
            seen_until.retain(|_, until| *until > now);
            // Who wants nothing shares the table with nobody.
            if wanted == 0 {
                seen_until.remove(&process);
            } else {
                seen_until.insert(process, now + length);
            }
            for lease in leases.iter_mut().filter(|lease| lease.holder == Some(process)) {
                lease.expires_at = now + length;
            }
            // Which ones are given back or taken is the server's business.
            let first = random.index(leases.len());
            leases.rotate_left(first);
            let mut mine = leases.iter().filter(|lease| lease.holder == Some(process)).count();
            for lease in leases.iter_mut() {
                if mine > wanted && lease.holder == Some(process) {
                    lease.holder = None;
                    mine -= 1;
                } else if mine < wanted && lease.is_free(now) {
                    *lease = Lease { holder: Some(process), expires_at: now + length, request };
                    mine += 1;
                }
            }
            leases.rotate_right(first);
            let workers = u32::try_from(seen_until.len()).expect("a few");
            let held = Self::shards(leases, process);
            let relation = Some(Oid::from_u32(shape::oid(*table)));
            let others = seen_until.iter().filter(|(other, _)| **other != process);
            let next_end = others.map(|(_, until)| until.since(now)).min();
            answer.push(TableLeases { relation, held, next_end, ..TableLeases::nothing(workers) });
        }
        Leases { tables: answer, request }
    }

    /// The process gives everything back.
    pub fn release(&mut self, process: u64, request: RequestNumber, tables: &[usize]) -> Leases {
        for lease in self.tables.iter_mut().flatten() {
            if lease.holder == Some(process) {
                lease.holder = None;
            }
        }
        let nothing = |table: &usize| {
            let seen_until = &mut self.seen_until[*table];
            seen_until.remove(&process);
            TableLeases::nothing(u32::try_from(seen_until.len()).expect("a few"))
        };
        Leases { tables: tables.iter().map(nothing).collect(), request }
    }

    /// A table of which not every shard has a worker, and how many have none.
    pub fn unheld(&self, now: Moment) -> Option<(usize, usize)> {
        let is_unheld = |lease: &&Lease| lease.is_free(now);
        let unheld = |leases: &Vec<Lease>| leases.iter().filter(is_unheld).count();
        self.tables.iter().map(unheld).enumerate().find(|(_, unheld)| *unheld > 0)
    }

    /// The process whose lease of a shard has begun last, unless it has given the shard back.
    pub fn holder(&self, table: usize, shard: u32) -> Option<u64> {
        self.tables[table][usize::try_from(shard).expect("a few")].holder
    }

    /// Whether a process has had a shard since this request of its.
    pub fn has_had(&self, process: u64, table: usize, shard: u32, since: RequestNumber) -> bool {
        let lease = self.tables[table][usize::try_from(shard).expect("a few")];
        lease.holder == Some(process) && lease.request <= since
    }

    /// Whether a process holds anything that has not expired.
    pub fn has_any(&self, process: u64, now: Moment) -> bool {
        let is_held = |lease: &Lease| lease.holder == Some(process) && lease.expires_at > now;
        self.tables.iter().flatten().any(is_held)
    }

    fn shards(leases: &[Lease], process: u64) -> ShardSet {
        (0..)
            .zip(leases)
            .filter(|(_, lease)| lease.holder == Some(process))
            .map(|(n, _)| n)
            .collect()
    }
}

impl Lease {
    fn is_free(&self, now: Moment) -> bool {
        self.holder.is_none() || self.expires_at < now
    }
}
