//! Pairs the records that the router would produce with those in Kafka, by event id.
//!
//! Each partition's records are taken strictly in the order of their offsets, since only so a wrong
//! order shows. A record whose event is not known yet waits at the head of its partition: its event
//! may still come from the WAL. It is decided that there is no such event once the WAL has been
//! read past the moment at which the record was there ([`Comparison::mark`],
//! [`Comparison::decide_marked`]). Where no more WAL may be read before more records were
//! ([`Comparison::is_full`]), it is decided by order ([`Comparison::decide_overtaken`]), since a
//! producer writes a partition in WAL order: a record has no event if it precedes the records of so
//! many events of its partition, and an event has no record if those of so many later events were
//! found. Whoever turns up after all is out of order.
//!
//! Neither side is read without limit. A partition that is ahead of the WAL
//! ([`Comparison::is_ahead`]) must not be read on: the records of others would wait behind its own.
//!
//! What is decided to have no event is either from before the slot's position, or an additional
//! record. It is additional if it follows a record that was paired, or was written after the
//! reading of its partition began: everything that is written then comes from WAL that the slot
//! still holds.

use std::{
    collections::{HashMap, VecDeque},
    hash::BuildHasher,
};

use foldhash::fast::RandomState;
use relay::{Failure, TopicName};

use super::{
    difference::{Difference, differences, sides},
    fingerprint::Fingerprint,
    recent::Recent,
    record::{Expected, id_of, place},
    report::{Example, Finding, Report},
};
use crate::kafka::{PartitionId, StoredRecord};

/// What a comparison may keep in memory.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Events that wait for their records, and records that wait for their events, each.
    pub waiting: usize,
    /// The bytes of each.
    pub waiting_bytes: usize,
    /// The ids and keys that are remembered: a record that is there again after more than so many
    /// others counts as additional, not as doubled.
    pub remembered: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { waiting: 50_000, waiting_bytes: 64 << 20, remembered: 1_000_000 }
    }
}

/// What waits on each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Events whose record was not found yet.
    pub events: usize,
    /// Records whose event is not known yet.
    pub records: usize,
}

/// See the module's header.
pub struct Comparison {
    id_header: String,
    topics: Vec<TopicName>,
    limits: Limits,
    hasher: RandomState,
    /// The number of the next event, in WAL order.
    next: u64,
    /// Events by id; several where the id was inserted again.
    waiting: HashMap<Vec<u8>, VecDeque<Waiting>>,
    events: Size,
    records: Size,
    seen: Recent<Seen>,
    /// The number of the latest paired event of each key, by the hash of partition and key.
    latest: Recent<u64>,
    /// Events that count as missing, by the hash of their ids; their records may still come.
    given_up: HashMap<u64, Fingerprint>,
    partitions: HashMap<PartitionId, Partition>,
    report: Report,
}

struct Waiting {
    number: u64,
    /// Its number among the events of its partition.
    position: u64,
    expected: Expected,
}

/// What is known of an event that waits for no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Its record was found.
    Found,
    /// It is not compared, and its record was not found yet.
    Skipped,
    /// A record was found so far ahead of the WAL that it was taken for an additional one.
    Early,
}

#[derive(Debug, Default, Clone, Copy)]
struct Size {
    count: usize,
    bytes: usize,
}

impl Size {
    fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn exceeds(self, limits: &Limits) -> bool {
        self.count >= limits.waiting || self.bytes >= limits.waiting_bytes
    }
}

#[derive(Debug)]
struct Partition {
    /// Where it ended when its reading began.
    end: i64,
    /// The offset of the first record that was paired.
    first: Option<i64>,
    queue: VecDeque<StoredRecord>,
    bytes: usize,
    /// How many records at the head can be decided.
    marked: usize,
    /// How many events have come whose records belong to it.
    expected: u64,
    /// The latest of them, by its number among them, whose record was found.
    latest: u64,
}

impl Partition {
    fn ending_at(end: i64) -> Self {
        Self {
            end,
            first: None,
            queue: VecDeque::new(),
            bytes: 0,
            marked: 0,
            expected: 0,
            latest: 0,
        }
    }
}

/// How many events of a partition a record has to precede before it is decided that it has none of
/// its own, where there is room for so many.
const PRECEDED: u64 = 100;

impl Comparison {
    /// `id_header` is the name of the header that holds the event's id.
    pub fn new(id_header: impl Into<String>, limits: Limits) -> Self {
        Self {
            id_header: id_header.into(),
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

    /// A topic is read from now on; each of its partitions ends at the offset given.
    pub fn begin_topic(&mut self, name: &TopicName, ends: impl IntoIterator<Item = i64>) {
        let topic = self.topics.len();
        self.topics.push(name.clone());
        for (partition, end) in (0..).zip(ends) {
            let id = PartitionId { topic, partition };
            self.partitions.insert(id, Partition::ending_at(end));
        }
    }

    /// The next event of the WAL.
    pub fn expect(&mut self, expected: Expected) {
        self.report.events += 1;
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

    /// The record of an event was decided before the event came: it is out of order, and not
    /// additional.
    fn found_early(&mut self, expected: &Expected, hash: u64) {
        self.seen.insert(hash, Seen::Found);
        self.report.found += 1;
        self.report.withdraw(Finding::Additional);
        self.report.add(Finding::Order, || Example {
            id: text(&expected.id),
            at: String::new(),
            ours: None,
            theirs: None,
        });
    }

    /// The next event of the WAL, which is not compared: its record is no additional one.
    pub fn skip(&mut self, id: &[u8]) {
        self.seen.insert(self.hasher.hash_one(id), Seen::Skipped);
    }

    /// A row at which `run` would stop.
    pub fn refuse(&mut self, failure: &Failure, id: Option<&[u8]>) {
        self.report.add(Finding::Refused, || Example {
            id: id.map(text).unwrap_or_default(),
            at: String::new(),
            ours: Some(format!("{}: {failure}", failure.code)),
            theirs: None,
        });
        if let Some(id) = id {
            self.skip(id);
        }
    }

    /// The next record of its partition.
    pub fn stored(&mut self, record: StoredRecord) {
        let id = record.partition;
        self.records.add(bytes_of(&record));
        let partition = self.partitions.entry(id).or_insert_with(|| Partition::ending_at(0));
        partition.bytes += bytes_of(&record);
        partition.queue.push_back(record);
        self.take(id);
    }

    /// Takes the records that wait for events which have come meanwhile.
    pub fn take_all(&mut self) {
        let ids: Vec<PartitionId> = self.partitions.keys().copied().collect();
        for id in ids {
            self.take(id);
        }
    }

    /// Marks the records that wait now. To be followed by a reading of the server's WAL position,
    /// and, once the WAL was read up to there, by [`Comparison::decide_marked`].
    pub fn mark(&mut self) {
        for partition in self.partitions.values_mut() {
            partition.marked = partition.queue.len();
        }
    }

    /// Decides the marked records that still have no event.
    pub fn decide_marked(&mut self) {
        self.decide_while(|partition| partition.marked > 0);
    }

    /// Decides by order; for the time during which no event may be given
    /// ([`Comparison::is_full`]).
    pub fn decide_overtaken(&mut self) {
        let room = self.limits.waiting / (2 * self.partitions.len().max(1));
        let enough = u64::try_from(room).unwrap_or(u64::MAX).clamp(1, PRECEDED);
        self.decide_while(|partition| partition.expected - partition.latest >= enough);
        if self.given_up.len() < self.limits.remembered {
            self.give_up(enough);
        }
    }

    /// Counts events as missing that so many later ones of their partition have overtaken.
    fn give_up(&mut self, enough: u64) {
        let partitions = &self.partitions;
        let is_overtaken = |event: &Waiting| {
            let partition = partitions.get(&event.expected.partition);
            partition.is_some_and(|partition| event.position + enough <= partition.latest)
        };
        let mut overtaken = Vec::new();
        self.waiting.retain(|_, events| {
            while events.front().is_some_and(is_overtaken) {
                overtaken.extend(events.pop_front());
            }
            !events.is_empty()
        });
        overtaken.sort_unstable_by_key(|event| event.number);
        for Waiting { number, expected, .. } in overtaken {
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
                let record = partition.and_then(|found| pop(found, &mut self.records));
                let Some(record) = record else { break };
                self.decide(&record);
            }
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

    /// Whether no more events may be given before more records were.
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
        self.mark();
        self.decide_marked();
        let waiting = std::mem::take(&mut self.waiting);
        let mut missing: Vec<Waiting> = waiting.into_values().flatten().collect();
        missing.sort_unstable_by_key(|event| event.number);
        for Waiting { expected, .. } in missing {
            self.missing(&expected);
        }
        self.report
    }

    /// Takes records from the head of a partition for as long as their events are known.
    fn take(&mut self, id: PartitionId) {
        while let Some(partition) = self.partitions.get_mut(&id) {
            let Some(head) = partition.queue.front() else { return };
            let event = id_of(&head.headers, &self.id_header);
            let Some(event) = event else {
                let Some(record) = pop(partition, &mut self.records) else { return };
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
            let Some(record) = pop(partition, &mut self.records) else { return };
            if let (false, Some(fingerprint)) = (waits, given_up) {
                self.pair_given_up(&record, hash, fingerprint);
                continue;
            }
            match seen {
                _ if waits => self.pair(&record, hash),
                Some(Seen::Found | Seen::Early) => self.add(Finding::Doubled, &record, None),
                Some(Seen::Skipped) | None => self.seen.insert(hash, Seen::Found),
            }
        }
    }

    fn missing(&mut self, expected: &Expected) {
        let topics = &self.topics;
        self.report.add(Finding::Missing, || Example {
            id: text(&expected.id),
            at: match topics.get(expected.partition.topic) {
                Some(topic) => format!("{topic}-{}", expected.partition.partition),
                None => String::new(),
            },
            ours: None,
            theirs: None,
        });
    }

    fn pair(&mut self, record: &StoredRecord, hash: u64) {
        let event = id_of(&record.headers, &self.id_header).unwrap_or_default();
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

    /// The record of an event that counts as missing: so it is not.
    fn pair_given_up(&mut self, record: &StoredRecord, hash: u64, fingerprint: Fingerprint) {
        self.given_up.remove(&hash);
        self.report.withdraw(Finding::Missing);
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

    /// A record without an event.
    fn decide(&mut self, record: &StoredRecord) {
        let partition = self.partitions.get(&record.partition);
        let is_within = partition
            .is_some_and(|partition| record.offset >= partition.end || partition.first.is_some());
        if is_within {
            if let Some(event) = id_of(&record.headers, &self.id_header) {
                self.seen.insert(self.hasher.hash_one(event), Seen::Early);
            }
            self.add(Finding::Additional, record, None);
        } else {
            self.report.earlier += 1;
        }
    }

    fn add(&mut self, finding: Finding, record: &StoredRecord, sides: Option<(String, String)>) {
        let (topics, id_header) = (&self.topics, &self.id_header);
        self.report.add(finding, || {
            let (ours, theirs) = sides.unzip();
            Example {
                id: id_of(&record.headers, id_header).map(text).unwrap_or_default(),
                at: place(topics, record.partition, record.offset),
                ours,
                theirs,
            }
        });
    }
}

fn pop(partition: &mut Partition, records: &mut Size) -> Option<StoredRecord> {
    let record = partition.queue.pop_front()?;
    partition.marked = partition.marked.saturating_sub(1);
    let bytes = bytes_of(&record);
    partition.bytes = partition.bytes.saturating_sub(bytes);
    records.remove(bytes);
    Some(record)
}

fn bytes_of(record: &StoredRecord) -> usize {
    let headers = record.headers.iter();
    let headers = headers.map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len) + 64);
    size_of::<StoredRecord>()
        + record.key.as_ref().map_or(0, Vec::len)
        + record.value.as_ref().map_or(0, Vec::len)
        + headers.sum::<usize>()
}

fn text(id: &[u8]) -> String {
    id.escape_ascii().to_string()
}
