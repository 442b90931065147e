//! Decides what nothing was paired with: which events are missing, and which records have no event.

use std::hash::BuildHasher;

use super::{
    comparison::{Comparison, Seen, Waiting},
    fingerprint::Fingerprint,
    partition::Partition,
    report::Finding,
};
use crate::kafka::{PartitionId, StoredRecord};

/// How many later events of a partition decide by order; fewer where there is no room for so many.
const LATER_EVENTS: u64 = 100;

impl Comparison {
    /// Notes the records that wait now. To be followed by a reading of the server's WAL position,
    /// and, once the WAL was read up to there, by [`Comparison::decide_noted`].
    pub fn note_waiting(&mut self) {
        for partition in self.partitions.values_mut() {
            partition.noted = partition.queue.len();
        }
    }

    /// Decides the noted records that still have no event.
    pub fn decide_noted(&mut self) {
        self.decide_while(|partition| partition.noted > 0);
    }

    /// Decides by order; for the time during which no event may be given
    /// ([`Comparison::is_full`]).
    pub fn decide_by_order(&mut self) {
        let room = self.limits.waiting / (2 * self.partitions.len().max(1));
        let enough = u64::try_from(room).unwrap_or(u64::MAX).clamp(1, LATER_EVENTS);
        self.decide_while(|partition| partition.expected - partition.latest >= enough);
        if self.given_up.len() < self.limits.remembered {
            self.give_up(enough);
        }
    }

    /// Counts events as missing: those before an event, `enough` further in their partition, whose
    /// record was found.
    fn give_up(&mut self, enough: u64) {
        let partitions = &self.partitions;
        let is_missing = |event: &Waiting| {
            let partition = partitions.get(&event.expected.partition);
            partition.is_some_and(|partition| event.position + enough <= partition.latest)
        };
        let mut missing = Vec::new();
        self.waiting.retain(|_, events| {
            while events.front().is_some_and(is_missing) {
                missing.extend(events.pop_front());
            }
            !events.is_empty()
        });
        missing.sort_unstable_by_key(|event| event.number);
        for Waiting { number, expected, .. } in missing {
            self.events.remove(expected.bytes());
            let fingerprint = Fingerprint::of(number, &expected, &self.hasher);
            self.given_up.insert(self.hasher.hash_one(expected.id.as_slice()), fingerprint);
            self.missing(&expected);
        }
    }

    fn decide_while(&mut self, may_decide: impl Fn(&Partition) -> bool) {
        let ids: Vec<PartitionId> = self.partitions.keys().copied().collect();
        for id in ids {
            loop {
                self.take(id);
                let partition = self.partitions.get_mut(&id).filter(|found| may_decide(found));
                let record = partition.and_then(|found| found.pop(&mut self.records));
                let Some(record) = record else { break };
                self.decide(&record);
            }
        }
    }

    /// A record without an event.
    pub(super) fn decide(&mut self, record: &StoredRecord) {
        let partition = self.partitions.get(&record.partition);
        let is_within = partition
            .is_some_and(|partition| record.offset >= partition.end || partition.first.is_some());
        if is_within {
            if let Some(event) = self.id_headers.id_of(&record.headers) {
                self.seen.insert(self.hasher.hash_one(event), Seen::Early);
            }
            self.add(Finding::Additional, record, None);
        } else {
            self.report.earlier += 1;
        }
    }
}
