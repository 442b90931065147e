//! Whatever differs is found, and nothing else, in whatever order the two sides are read.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use relay::{Code, Failure, TopicName};

use super::*;
use crate::kafka::{PartitionId, StoredRecord};

const PARTITIONS: i32 = 3;
/// Where each partition ends when the reading begins.
const ENDS: [i64; 3] = [0; 3];

fn at(partition: i32) -> PartitionId {
    PartitionId { topic: 0, partition }
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
        time: Time::Row(1_000),
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
    Doubled,
    /// Changes places with the next record of its key.
    Swapped,
    Value,
    Null,
    Header,
    HeaderOrder,
    Key,
    Partition,
    Timestamp,
    /// A record that is no event follows it.
    Foreign,
}

fn planted() -> impl Strategy<Value = Planted> {
    use Planted::{
        Doubled, Dropped, Foreign, Header, HeaderOrder, Key, Nothing, Null, Swapped, Timestamp,
        Value,
    };
    let some = [
        Dropped,
        Doubled,
        Swapped,
        Value,
        Null,
        Header,
        HeaderOrder,
        Key,
        Planted::Partition,
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
        Planted::Doubled => "doubled",
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
    let mut logs = Logs((0..PARTITIONS).map(|partition| (at(partition), Vec::new())).collect());
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
        if planted == Planted::Doubled {
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
    let mut comparison = Comparison::new("id", limits);
    comparison.begin_topic(&TopicName::new("t").unwrap(), ENDS);
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
                comparison.decide_overtaken();
                break;
            }
            if let Some(expected) = expected.next() {
                comparison.expect(expected);
            }
        }
        comparison.take_all();
        if expected.peek().is_none() {
            comparison.mark();
            comparison.decide_marked();
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
            11 => Planted::Doubled,
            13 => Planted::Partition,
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

#[test]
fn records_from_before_the_slots_position_are_no_difference() {
    let mut comparison = Comparison::new("id", Limits::default());
    comparison.begin_topic(&TopicName::new("t").unwrap(), [2, 0, 0]);
    for (offset, number) in [(0, 100), (1, 101), (2, 0)] {
        comparison.stored(StoredRecord { offset, ..record_of(&event(number, 0)) });
    }
    comparison.expect(event(0, 0));
    let report = comparison.finish();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.earlier, report.same), (2, 1));
}

#[test]
fn a_record_written_after_the_reading_began_is_additional_even_if_nothing_was_paired() {
    let mut comparison = Comparison::new("id", Limits::default());
    comparison.begin_topic(&TopicName::new("t").unwrap(), [2]);
    comparison.stored(StoredRecord { offset: 2, ..record_of(&event(100, 0)) });
    assert_eq!(comparison.finish().count(Finding::Additional), 1);
}

#[test]
fn a_record_far_ahead_of_its_turn_is_out_of_order_and_not_additional() {
    let mut comparison = Comparison::new("id", Limits { waiting: 4, ..Limits::default() });
    comparison.begin_topic(&TopicName::new("t").unwrap(), [0]);
    let early = record_of(&event(9, 0));
    comparison.stored(early);
    for number in 0..4 {
        comparison.expect(event(number, 0));
    }
    assert!(comparison.is_full());
    comparison.decide_overtaken();
    for (offset, number) in (1..).zip(0..9) {
        comparison.stored(StoredRecord { offset, ..record_of(&event(number, 0)) });
        if number + 4 < 10 {
            comparison.expect(event(number + 4, 0));
        }
    }
    let report = comparison.finish();
    assert_eq!(found(&report), [("order", 1)].into(), "{report:?}");
    assert_eq!((report.events, report.same), (10, 9));
}

#[test]
fn a_record_of_an_event_that_is_not_compared_is_no_difference_unless_it_is_there_twice() {
    let mut comparison = Comparison::new("id", Limits::default());
    comparison.begin_topic(&TopicName::new("t").unwrap(), [0]);
    comparison.skip(b"event-7");
    comparison.stored(record_of(&event(7, 0)));
    comparison.stored(StoredRecord { offset: 1, ..record_of(&event(7, 0)) });
    let report = comparison.finish();
    assert_eq!(found(&report), [("doubled", 1)].into());
}

#[test]
fn a_row_at_which_run_would_stop_is_a_finding_and_its_record_no_second_one() {
    let mut comparison = Comparison::new("id", Limits::default());
    comparison.begin_topic(&TopicName::new("t").unwrap(), [0]);
    comparison.refuse(&Failure::new(Code::KeyIsNull, "its key is NULL"), Some(b"event-7"));
    comparison.stored(record_of(&event(7, 0)));
    let report = comparison.finish();
    assert_eq!(found(&report), [("refused", 1)].into());
}

#[test]
fn an_example_says_where_and_what() {
    let mut comparison = Comparison::new("id", Limits::default());
    comparison.begin_topic(&TopicName::new("orders").unwrap(), [0]);
    let expected = Expected { value: Some(br#"{"a": 1, "b": 2}"#.to_vec()), ..event(1, 0) };
    comparison.expect(expected.clone());
    let value = Some(br#"{"a": 1, "b": 3}"#.to_vec());
    comparison.stored(StoredRecord { value, offset: 9, ..record_of(&expected) });
    let report = comparison.finish();
    let (_, _, [example]) = report.findings().next().unwrap() else { panic!("{report:?}") };
    assert_eq!(example.id, "event-1");
    assert_eq!(example.at, "orders-0@9");
    assert_eq!(example.ours.as_deref(), Some(r#""{\"a\": 1, \"b\": 2}""#));
    assert_eq!(example.theirs.as_deref(), Some(r#""{\"a\": 1, \"b\": 3}""#));
}
