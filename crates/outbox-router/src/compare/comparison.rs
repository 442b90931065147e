//! Pairs the records that the router would produce with those in Kafka, by event id.
//!
//! Each partition's records are taken strictly in the order of their offsets; otherwise a wrong
//! order would not show. A record that has no event yet waits at the head of its partition. When it
//! was there before a reading of the server's WAL position, and the WAL has been read to that
//! position, it has no event ([`Comparison::note_waiting`], [`Comparison::decide_noted`]). While
//! [`Comparison::is_full`] forbids reading more WAL, the order decides
//! ([`Comparison::decide_by_order`]), as a producer writes a partition in WAL order: a record has
//! no event if it lies before the records of 100 events that were read, and an event has no record
//! if that of an event at least 100 after it in its partition was found. A record that was decided
//! and whose event comes later counts as out of order. An event that was decided and whose record
//! comes later is compared after all.
//!
//! Neither side is read without limit. A partition that is ahead of the WAL
//! ([`Comparison::is_ahead`]) must not be read on: the records of others would wait behind its own.
//!
//! A record without event is taken for older than the slot's position, or counts as additional. It
//! is additional if it follows a record that was paired, or was written after the reading of its
//! partition began: everything that is written then comes from WAL that the slot still holds.

use std::{
    collections::{HashMap, VecDeque},
    hash::BuildHasher,
};

use foldhash::fast::RandomState;
use relay::{Failure, TopicName};

use super::{
    context_headers,
    difference::{Difference, differences, sides},
    fingerprint::Fingerprint,
    limits::{Limits, Load, Size},
    partition::Partition,
    recent::Recent,
    record::{Expected, IdHeaders, topic_partition_offset},
    report::{Example, Finding, Report},
};
use crate::kafka::{PartitionId, StoredRecord};

/// See the module's header.
pub struct Comparison {
    pub(super) id_headers: IdHeaders,
    topics: Vec<TopicName>,
    pub(super) limits: Limits,
    pub(super) hasher: RandomState,
    /// The number of the next event, in WAL order.
    next: u64,
    /// Events by id; several where the id was inserted again.
    pub(super) waiting: HashMap<Vec<u8>, VecDeque<Waiting>>,
    pub(super) events: Size,
    pub(super) records: Size,
    pub(super) seen: Recent<Seen>,
    /// The number of the latest paired event of each key, by the hash of partition and key.
    latest: Recent<u64>,
    /// Events that count as missing, by the hash of their ids; their records may still come.
    pub(super) given_up: HashMap<u64, Fingerprint>,
    pub(super) partitions: HashMap<PartitionId, Partition>,
    pub(super) report: Report,
}

/// An event that waits for its record.
pub(super) struct Waiting {
    pub(super) number: u64,
    /// Its number among the events of its partition.
    pub(super) position: u64,
    pub(super) expected: Expected,
}

/// What is known of an event that waits for no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Its record was found.
    Found,
    /// It is not compared.
    Skipped,
    /// A record was found so far ahead of the WAL that it was taken for an additional one.
    Early,
}

impl Comparison {
    /// Nothing is known yet.
    pub fn new(id_headers: IdHeaders, limits: Limits) -> Self {
        Self {
            id_headers,
            topics: Vec::new(),
            limits,
            hasher: RandomState::default(),
            next: 0,
            waiting: HashMap::new(),
            events: Size::default(),
            records: Size::default(),
            seen: Recent::new(limits.remembered),
            latest: Recent::new(limits.remembered),
            given_up: HashMap::new(),
            partitions: HashMap::new(),
            report: Report::default(),
        }
    }

    /// The next topic, which is read from now on; each of its partitions ends at the offset given.
    /// A topic that does not exist has no partition.
    pub fn begin_topic(&mut self, name: &TopicName, ends: impl IntoIterator<Item = i64>) {
        let topic = self.topics.len();
        self.topics.push(name.clone());
        for (partition, end) in (0..).zip(ends) {
            let id = PartitionId { topic, partition };
            self.partitions.insert(id, Partition::ending_at(end));
        }
    }

    /// The next event of the WAL.
    pub fn expect(&mut self, mut expected: Expected) {
        self.report.events += 1;
        context_headers::take_out(&mut expected.headers);
        let hash = self.hasher.hash_one(expected.id.as_slice());
        if self.seen.get(hash) == Some(Seen::Early) {
            self.found_early(&expected, hash);
            return;
        }
        let number = self.next;
        self.next += 1;
        self.events.add(expected.bytes());
        let partition = self.partitions.get_mut(&expected.partition);
        let position = partition.map_or(0, |partition| {
            partition.expected += 1;
            partition.expected
        });
        let id = expected.id.clone();
        self.waiting.entry(id).or_default().push_back(Waiting { number, position, expected });
    }

    /// The next event of the WAL, which has no id, so that its record cannot be looked for. `at`
    /// says where its record would be, and where the event is in WAL.
    pub fn expect_without_id(&mut self, at: String) {
        self.report.events += 1;
        self.report.add(Finding::NoId, || Example {
            id: String::new(),
            at,
            ours: None,
            theirs: None,
        });
    }

    /// The record was decided before its event came: it is out of order, and not additional.
    fn found_early(&mut self, expected: &Expected, hash: u64) {
        self.seen.insert(hash, Seen::Found);
        self.report.found += 1;
        self.report.withdraw(Finding::Additional, &text(&expected.id));
        self.report.add(Finding::Order, || Example {
            id: text(&expected.id),
            at: String::new(),
            ours: None,
            theirs: None,
        });
    }

    /// The next event of the WAL, which is not compared: its records do not count as additional.
    pub fn skip(&mut self, id: &[u8]) {
        let hash = self.hasher.hash_one(id);
        if self.seen.get(hash) == Some(Seen::Early) {
            self.report.withdraw(Finding::Additional, &text(id));
        }
        self.seen.insert(hash, Seen::Skipped);
    }

    /// A row at which `run` would stop.
    pub fn refuse(&mut self, failure: &Failure, id: Option<&[u8]>) {
        self.report.add(Finding::Refused, || Example {
            id: id.map(text).unwrap_or_default(),
            at: String::new(),
            ours: Some(format!("{failure:#}")),
            theirs: None,
        });
        if let Some(id) = id {
            self.skip(id);
        }
    }

    /// The next record of its partition.
    pub fn stored(&mut self, mut record: StoredRecord) {
        if context_headers::take_out(&mut record.headers) {
            self.report.with_context_headers += 1;
        }
        let id = record.partition;
        let partition = self.partitions.entry(id).or_insert_with(|| Partition::ending_at(0));
        partition.push(record, &mut self.records);
        self.take(id);
    }

    /// Takes the records that wait for events which have come meanwhile.
    pub fn take_all(&mut self) {
        let ids: Vec<PartitionId> = self.partitions.keys().copied().collect();
        for id in ids {
            self.take(id);
        }
    }

    /// Whether so many records of a partition wait that no more of it may be read.
    pub fn is_ahead(&self, partition: PartitionId) -> bool {
        let share = self.limits.waiting / self.partitions.len().max(1);
        let bytes = self.limits.waiting_bytes / self.partitions.len().max(1);
        self.partitions.get(&partition).is_some_and(|partition| {
            partition.queue.len() >= share.max(1) || partition.bytes >= bytes
        })
    }

    /// Whether records have to be given before the next event.
    pub fn is_full(&self) -> bool {
        self.events.exceeds(&self.limits)
    }

    /// What waits on each side.
    pub fn load(&self) -> Load {
        Load { events: self.events.count, records: self.records.count }
    }

    /// What was found so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Ends the comparison: records that wait are decided, and events that wait are missing.
    pub fn finish(mut self) -> Report {
        self.note_waiting();
        self.decide_noted();
        let waiting = std::mem::take(&mut self.waiting);
        let mut missing: Vec<Waiting> = waiting.into_values().flatten().collect();
        missing.sort_unstable_by_key(|event| event.number);
        for Waiting { expected, .. } in missing {
            self.missing(&expected);
        }
        self.report
    }

    /// Takes records from the head of a partition for as long as their events are known.
    pub(super) fn take(&mut self, id: PartitionId) {
        while let Some(partition) = self.partitions.get_mut(&id) {
            let Some(head) = partition.queue.front() else { return };
            let event = self.id_headers.id_of(&head.headers);
            let Some(event) = event else {
                let Some(record) = partition.pop(&mut self.records) else { return };
                self.decide(&record);
                continue;
            };
            let waits = self.waiting.contains_key(event);
            let hash = self.hasher.hash_one(event);
            let seen = self.seen.get(hash);
            let given_up = self.given_up.get(&hash).copied();
            if !waits && seen.is_none() && given_up.is_none() {
                return;
            }
            let Some(record) = partition.pop(&mut self.records) else { return };
            if let (false, Some(fingerprint)) = (waits, given_up) {
                self.pair_given_up(&record, hash, fingerprint);
                continue;
            }
            match seen {
                _ if waits => self.pair(&record, hash),
                Some(Seen::Found | Seen::Early) => self.add(Finding::Duplicate, &record, None),
                Some(Seen::Skipped) | None => {}
            }
        }
    }

    pub(super) fn missing(&mut self, expected: &Expected) {
        let (topics, partitions) = (&self.topics, &self.partitions);
        self.report.add(Finding::Missing, || Example {
            id: text(&expected.id),
            at: match topics.get(expected.partition.topic) {
                Some(topic) if partitions.contains_key(&expected.partition) => {
                    format!("{topic}-{}", expected.partition.partition)
                }
                // Without the topic's partition count, no key has a partition.
                Some(topic) => format!("{topic}-?"),
                None => String::new(),
            },
            ours: None,
            theirs: None,
        });
    }

    fn pair(&mut self, record: &StoredRecord, hash: u64) {
        let event = self.id_headers.id_of(&record.headers).unwrap_or_default();
        let Some(queue) = self.waiting.get_mut(event) else { return };
        let Some(Waiting { number, position, expected }) = queue.pop_front() else { return };
        if queue.is_empty() {
            self.waiting.remove(event);
        }
        self.events.remove(expected.bytes());
        self.seen.insert(hash, Seen::Found);
        self.report.found += 1;
        if let Some(partition) = self.partitions.get_mut(&record.partition) {
            partition.first.get_or_insert(record.offset);
            // A record in a wrong partition says nothing about how far its own was read.
            if expected.partition == record.partition {
                partition.latest = partition.latest.max(position);
            }
        }
        let differences = differences(&expected, record);
        self.check_order(record, number, &differences);
        for difference in differences {
            let (ours, theirs) = self.sides(difference, &expected, record);
            self.add(Finding::Differs(difference), record, Some((ours, theirs)));
        }
    }

    /// An event that was counted as missing is found.
    fn pair_given_up(&mut self, record: &StoredRecord, hash: u64, fingerprint: Fingerprint) {
        self.given_up.remove(&hash);
        let event = self.id_headers.id_of(&record.headers).map(text).unwrap_or_default();
        self.report.withdraw(Finding::Missing, &event);
        self.seen.insert(hash, Seen::Found);
        self.report.found += 1;
        let differences = fingerprint.differences(record, &self.hasher);
        self.check_order(record, fingerprint.number, &differences);
        for difference in differences {
            self.add(Finding::Differs(difference), record, None);
        }
    }

    fn check_order(&mut self, record: &StoredRecord, number: u64, differences: &[Difference]) {
        let key = self.hasher.hash_one((record.partition, &record.key));
        if self.latest.get(key).is_some_and(|latest| latest > number) {
            self.add(Finding::Order, record, None);
        } else {
            self.latest.insert(key, number);
            self.report.same += u64::from(differences.is_empty());
        }
    }

    fn sides(
        &self,
        difference: Difference,
        expected: &Expected,
        record: &StoredRecord,
    ) -> (String, String) {
        if difference == Difference::Topic {
            let name = |partition: PartitionId| {
                self.topics.get(partition.topic).map_or(String::new(), ToString::to_string)
            };
            return (name(expected.partition), name(record.partition));
        }
        sides(difference, expected, record)
    }

    pub(super) fn add(
        &mut self,
        finding: Finding,
        record: &StoredRecord,
        sides: Option<(String, String)>,
    ) {
        let (topics, id_headers) = (&self.topics, &self.id_headers);
        self.report.add(finding, || {
            let (ours, theirs) = sides.unzip();
            Example {
                id: id_headers.id_of(&record.headers).map(text).unwrap_or_default(),
                at: topic_partition_offset(topics, record.partition, record.offset),
                ours,
                theirs,
            }
        });
    }
}

fn text(id: &[u8]) -> String {
    id.escape_ascii().to_string()
}
