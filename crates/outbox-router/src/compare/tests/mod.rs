//! Whatever differs is found, and nothing else, in whatever order the two sides are read.

mod cases;

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use relay::TopicName;

use super::*;
use crate::kafka::{PartitionId, StoredRecord};

const PARTITIONS: i32 = 3;
/// Where each partition ends when the reading begins.
const ENDS: [i64; 3] = [0; 3];

/// A partition of the topic to which the router would write.
fn at(partition: i32) -> PartitionId {
    PartitionId { topic: 0, partition }
}

/// The partition of that number in another topic that is read.
fn elsewhere(partition: PartitionId) -> PartitionId {
    PartitionId { topic: 1, ..partition }
}

fn event(number: usize, key: usize) -> Expected {
    Expected {
        id: format!("event-{number}").into_bytes(),
        partition: at(i32::try_from(key).unwrap() % PARTITIONS),
        key: format!("key-{key}").into_bytes(),
        value: Some(format!("{{\"number\": {number}}}").into_bytes()),
        headers: vec![
            ("id".to_owned(), Some(format!("event-{number}").into_bytes())),
            ("type".to_owned(), Some(b"made".to_vec())),
        ],
        time: ExpectedTime::Row(1_000),
    }
}

fn record_of(expected: &Expected) -> StoredRecord {
    StoredRecord {
        partition: expected.partition,
        offset: 0,
        timestamp_ms: 1_000,
        key: Some(expected.key.clone()),
        value: expected.value.clone(),
        headers: expected.headers.clone(),
    }
}

/// What can be wrong with one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Planted {
    Nothing,
    Dropped,
    Duplicate,
    /// Changes places with the next record of its key.
    Swapped,
    Value,
    Null,
    Header,
    HeaderOrder,
    Key,
    Partition,
    Topic,
    Timestamp,
    /// A record that is no event follows it.
    Foreign,
}

fn planted() -> impl Strategy<Value = Planted> {
    use Planted::{
        Dropped, Duplicate, Foreign, Header, HeaderOrder, Key, Nothing, Null, Swapped, Timestamp,
        Topic, Value,
    };
    let some = [
        Dropped,
        Duplicate,
        Swapped,
        Value,
        Null,
        Header,
        HeaderOrder,
        Key,
        Planted::Partition,
        Topic,
        Timestamp,
        Foreign,
    ];
    prop_oneof![20 => Just(Nothing), 1 => prop::sample::select(some.to_vec())]
}

/// Alters a record, and says what must be found of it.
fn alter(record: &mut StoredRecord, planted: Planted) -> Option<&'static str> {
    let mut headers = record.headers.iter_mut();
    let finding = match planted {
        Planted::Nothing | Planted::Swapped => return None,
        Planted::Dropped => "missing",
        Planted::Duplicate => "duplicate",
        Planted::Foreign => "additional",
        Planted::Value => {
            record.value = Some(b"other".to_vec());
            "value"
        }
        Planted::Null => {
            record.value = None;
            "value"
        }
        Planted::Header => {
            headers.next_back().unwrap().1 = None;
            "headers"
        }
        Planted::HeaderOrder => {
            record.headers.swap(0, 1);
            "headers"
        }
        Planted::Key => {
            record.key = None;
            "key"
        }
        Planted::Timestamp => {
            record.timestamp_ms = 5;
            "timestamp"
        }
        Planted::Partition => {
            record.partition = at((record.partition.partition + 1) % PARTITIONS);
            "partition"
        }
        Planted::Topic => {
            record.partition = elsewhere(record.partition);
            "topic"
        }
    };
    Some(finding)
}

/// What is in Kafka's partitions.
struct Logs(BTreeMap<PartitionId, Vec<StoredRecord>>);

impl Logs {
    fn push(&mut self, mut record: StoredRecord) {
        let log = self.0.get_mut(&record.partition).unwrap();
        record.offset = i64::try_from(log.len()).unwrap();
        log.push(record);
    }
}

/// Writes the records of events, and returns what must be found.
fn write(events: &[(usize, Planted)]) -> (Logs, BTreeMap<&'static str, u64>) {
    let partitions = (0..PARTITIONS).flat_map(|number| [at(number), elsewhere(at(number))]);
    let mut logs = Logs(partitions.map(|partition| (partition, Vec::new())).collect());
    let mut findings: BTreeMap<&'static str, u64> = BTreeMap::new();
    // A swapped record, by key, until the next one of its key was written.
    let mut held: BTreeMap<usize, StoredRecord> = BTreeMap::new();
    for (number, (key, planted)) in events.iter().enumerate() {
        let mut record = record_of(&event(number, *key));
        let swapped = held.remove(key);
        // One change at a time: a record that waits for this one follows it.
        let planted = if swapped.is_some() { Planted::Nothing } else { *planted };
        if planted == Planted::Swapped {
            held.insert(*key, record);
            continue;
        }
        let finding = alter(&mut record, planted);
        let finding = finding.or_else(|| swapped.is_some().then_some("order"));
        if let Some(finding) = finding {
            *findings.entry(finding).or_default() += 1;
        }
        if planted != Planted::Dropped {
            logs.push(record.clone());
        }
        if planted == Planted::Duplicate {
            logs.push(record.clone());
        }
        if planted == Planted::Foreign {
            let id = record.headers.first_mut().unwrap();
            id.1 = Some(format!("foreign-{number}").into_bytes());
            logs.push(record);
        }
        swapped.into_iter().for_each(|swapped| logs.push(swapped));
    }
    // The last of its key has nothing to change places with.
    held.into_values().for_each(|record| logs.push(record));
    (logs, findings)
}

/// Reads both sides in turns: of each side as much as `turns` says, within the limits.
fn compare(
    events: &[(usize, Planted)],
    logs: Logs,
    turns: &[(u8, u8)],
    chunk: usize,
    limits: Limits,
) -> Report {
    let mut comparison = Comparison::new(IdHeaders::new(["id"]), limits);
    for topic in ["t", "elsewhere"] {
        comparison.begin_topic(&TopicName::new(topic).unwrap(), ENDS);
    }
    let mut expected =
        events.iter().enumerate().map(|(number, (key, _))| event(number, *key)).peekable();
    let mut logs: VecDeque<(PartitionId, VecDeque<StoredRecord>)> =
        logs.0.into_iter().map(|(id, log)| (id, log.into())).collect();
    let mut turns = turns.iter().cycle();
    let mut read = 0;
    while expected.peek().is_some() || logs.iter().any(|(_, log)| !log.is_empty()) {
        let (wal, kafka) = turns.next().unwrap();
        for _ in 0..*wal {
            if comparison.is_full() {
                comparison.decide_by_order();
                break;
            }
            if let Some(expected) = expected.next() {
                comparison.expect(expected);
            }
        }
        comparison.take_all();
        if expected.peek().is_none() {
            comparison.note_waiting();
            comparison.decide_noted();
        }
        for _ in 0..*kafka {
            read += 1;
            let (id, log) = logs.front_mut().unwrap();
            let next = if comparison.is_ahead(*id) { None } else { log.pop_front() };
            let is_over = next.is_none() || read % chunk == 0;
            next.into_iter().for_each(|record| comparison.stored(record));
            if is_over {
                logs.rotate_left(1);
            }
        }
        let load = comparison.load();
        assert!(load.events <= limits.waiting && load.records <= limits.waiting, "{load:?}");
    }
    comparison.finish()
}

fn found(report: &Report) -> BTreeMap<&'static str, u64> {
    report.findings().map(|(finding, count, _)| (finding.as_str(), count)).collect()
}

proptest! {
    #[test]
    fn every_planted_difference_is_found_and_none_is_invented(
        events in prop::collection::vec((0_usize..6, planted()), 1..200),
        chunk in 1_usize..100,
        turns in prop::collection::vec((0_u8..20, 1_u8..20), 1..20),
    ) {
        let turns = [&[(1, 1)], turns.as_slice()].concat();
        let (logs, planted) = write(&events);
        let limits = Limits { waiting: 200, ..Limits::default() };
        let report = compare(&events, logs, &turns, chunk, limits);
        prop_assert_eq!(found(&report), planted);
        prop_assert_eq!(report.events, u64::try_from(events.len()).unwrap());
    }

    #[test]
    fn missing_and_additional_records_do_not_hold_up_a_long_comparison(
        chunk in 1_usize..100,
        turns in prop::collection::vec((0_u8..50, 1_u8..50), 1..20),
        key in 1_usize..40,
    ) {
        let planted = |number| match number % 17 {
            3 => Planted::Dropped,
            5 => Planted::Foreign,
            7 => Planted::Value,
            11 => Planted::Duplicate,
            13 => Planted::Partition,
            15 => Planted::Topic,
            _ => Planted::Nothing,
        };
        let events: Vec<_> =
            (0..2_000).map(|number| (number * 7 % key, planted(number))).collect();
        let turns = [&[(1, 1)], turns.as_slice()].concat();
        let (logs, planted) = write(&events);
        let limits = Limits { waiting: 120, ..Limits::default() };
        let report = compare(&events, logs, &turns, chunk, limits);
        prop_assert_eq!(found(&report), planted);
    }

    #[test]
    fn a_long_comparison_keeps_only_what_one_side_is_ahead(
        chunk in 1_usize..100,
        turns in prop::collection::vec((0_u8..50, 1_u8..50), 1..20),
        key in 1_usize..40,
    ) {
        let events: Vec<_> = (0..2_000).map(|number| (number * 7 % key, Planted::Nothing)).collect();
        let turns = [&[(1, 1)], turns.as_slice()].concat();
        let limits = Limits { waiting: 60, ..Limits::default() };
        let report = compare(&events, write(&events).0, &turns, chunk, limits);
        prop_assert!(report.is_clean(), "{report:?}");
        prop_assert_eq!(report.same, 2_000);
    }
}
