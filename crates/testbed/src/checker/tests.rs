//! Tests of the checker on synthetic logs: it passes every log that a correct router can leave, and
//! finds each single defect that is put into one.

use std::sync::Arc;
use std::time::SystemTime;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

const PARTITIONS: usize = 3;

fn event(key: usize, seq: i64, n: usize) -> ExpectedEvent {
    let id = Uuid::from_u128(u128::try_from(n).unwrap() + 1);
    ExpectedEvent {
        id,
        seq,
        topic: "outbox.event.order".to_owned(),
        key: format!("order-{key}"),
        value: Some(Digest::of(format!("value {n}").as_bytes())),
        headers: vec![("id".to_owned(), id.to_string()), ("type".to_owned(), "paid".to_owned())],
        xid: u32::try_from(n).unwrap() + 700,
    }
}

fn record(event: &ExpectedEvent, n: usize, key: usize) -> ConsumedRecord {
    let headers = event.headers.iter();
    ConsumedRecord {
        topic: Arc::from(event.topic.as_str()),
        partition: i32::try_from(key % PARTITIONS).unwrap(),
        offset: 0,
        key: Some(event.key.clone().into_bytes()),
        value: Some(format!("value {n}").into_bytes()),
        headers: headers
            .map(|(name, value)| (name.clone(), Some(value.clone().into_bytes())))
            .collect(),
        timestamp: Some(0),
        received: SystemTime::UNIX_EPOCH,
    }
}

/// Events in commit order and the records that they become, position by position.
fn source(keys: &[usize]) -> (Truth, Vec<ConsumedRecord>) {
    let mut numbers = HashMap::<usize, i64>::new();
    let mut truth = Truth::default();
    let mut records = Vec::new();
    for (n, key) in keys.iter().copied().enumerate() {
        let seq = numbers.entry(key).or_default();
        // Numbers of events that were rolled back leave holes.
        *seq += 1 + i64::try_from(n % 2).unwrap();
        let event = event(key, *seq, n);
        records.push(record(&event, n, key));
        truth.events.push(event);
    }
    (truth, records)
}

/// Appends to partitions: an offset is a place in the log of its partition.
fn append(records: impl IntoIterator<Item = ConsumedRecord>) -> Vec<ConsumedRecord> {
    let mut ends = HashMap::<i32, i64>::new();
    records
        .into_iter()
        .map(|mut record| {
            let end = ends.entry(record.partition).or_default();
            record.offset = *end;
            *end += 1;
            record
        })
        .collect()
}

/// The records that a router leaves which is interrupted and replays from an earlier position each
/// time.
fn with_replays(
    records: &[ConsumedRecord],
    interruptions: &[(Index, Index)],
) -> Vec<ConsumedRecord> {
    let mut log = Vec::new();
    let mut from = 0;
    for (at, back) in interruptions {
        let until = from + at.index(records.len() - from + 1);
        log.extend_from_slice(&records[from..until]);
        from = back.index(until + 1);
    }
    log.extend_from_slice(&records[from..]);
    append(log)
}

fn result(truth: &Truth, seen: &[ConsumedRecord]) -> CheckResult {
    check(truth, seen, &CheckOptions::default())
}

fn keys() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0_usize..5, 1..60)
}

fn interruptions() -> impl Strategy<Value = Vec<(Index, Index)>> {
    prop::collection::vec(any::<(Index, Index)>(), 0..4)
}

/// Two neighbouring positions of one key, where there are such.
fn neighbours(keys: &[usize], pick: Index) -> Option<(usize, usize)> {
    let pairs: Vec<(usize, usize)> = (0..keys.len())
        .filter_map(|a| Some((a, (a + 1..keys.len()).find(|b| keys[*b] == keys[a])?)))
        .collect();
    (!pairs.is_empty()).then(|| pairs[pick.index(pairs.len())])
}

proptest! {
    #[test]
    fn a_correct_log_with_replays_has_no_anomaly(keys in keys(), interruptions in interruptions()) {
        let (truth, records) = source(&keys);
        let log = with_replays(&records, &interruptions);
        let result = result(&truth, &log);
        prop_assert!(result.is_clean(), "{:?}", result);
        prop_assert_eq!(result.in_kafka, keys.len());
        prop_assert_eq!(result.duplicates, log.len() - keys.len());
    }

    #[test]
    fn the_result_does_not_depend_on_the_order_of_the_list(
        keys in keys(), interruptions in interruptions(),
    ) {
        let (truth, records) = source(&keys);
        let mut log = with_replays(&records, &interruptions);
        let straight = result(&truth, &log);
        log.reverse();
        prop_assert_eq!(result(&truth, &log), straight);
    }

    #[test]
    fn a_missing_record_counts_as_lost(
        keys in keys(), interruptions in interruptions(), pick in any::<Index>(),
    ) {
        let (truth, records) = source(&keys);
        let gone = records[pick.index(records.len())].headers.clone();
        let log = with_replays(&records, &interruptions);
        let log = append(log.into_iter().filter(|record| record.headers != gone));
        let result = result(&truth, &log);
        prop_assert_eq!(result.lost.count(), 1);
        prop_assert_eq!(result.incomplete_replays.count(), 0);
        prop_assert!(!result.is_clean());
    }

    #[test]
    fn two_swapped_records_of_a_key_violate_the_order(keys in keys(), pick in any::<Index>()) {
        let (truth, mut records) = source(&keys);
        let Some((a, b)) = neighbours(&keys, pick) else { return Ok(()) };
        records.swap(a, b);
        let result = result(&truth, &append(records));
        prop_assert!(result.order.count() >= 1);
        prop_assert_eq!(result.lost.count(), 0);
    }

    #[test]
    fn a_repeated_record_counts_as_one_duplicate(keys in keys(), pick in any::<Index>()) {
        let (truth, mut records) = source(&keys);
        let at = pick.index(records.len());
        records.insert(at, records[at].clone());
        let result = result(&truth, &append(records));
        prop_assert_eq!(result.duplicates, 1);
        prop_assert!(result.is_clean());
    }

    #[test]
    fn a_duplicate_with_other_bytes_counts_as_altered(
        keys in keys(), pick in any::<Index>(), part in 0..4_usize,
    ) {
        let (truth, mut records) = source(&keys);
        let at = pick.index(records.len());
        let mut copy = records[at].clone();
        alter(&mut copy, part);
        records.insert(at + 1, copy);
        let result = result(&truth, &append(records));
        prop_assert_eq!((result.duplicates, result.altered.count()), (1, 1));
    }

    #[test]
    fn a_record_that_differs_from_its_row_counts_as_altered(
        keys in keys(), pick in any::<Index>(), part in 0..5_usize,
    ) {
        let (truth, mut records) = source(&keys);
        let at = pick.index(records.len());
        alter(&mut records[at], part);
        let result = result(&truth, &append(records));
        prop_assert_eq!(result.altered.count(), 1);
    }

    #[test]
    fn a_key_in_two_partitions_violates_affinity(keys in keys(), pick in any::<Index>()) {
        let (truth, mut records) = source(&keys);
        let Some((_, moved)) = neighbours(&keys, pick) else { return Ok(()) };
        records[moved].partition += 1;
        let result = result(&truth, &append(records));
        prop_assert_eq!(result.affinity.count(), 1);
        prop_assert_eq!(result.lost.count(), 0);
    }

    #[test]
    fn a_record_of_an_uncommitted_event_counts_as_a_phantom(
        keys in keys(), pick in any::<Index>(), rolled_back in any::<Rollback>(),
    ) {
        let (mut truth, records) = source(&keys);
        let event = truth.events.remove(pick.index(records.len()));
        if rolled_back == Rollback::Told {
            truth.rolled_back.insert(event.id);
        }
        let result = result(&truth, &append(records));
        prop_assert_eq!(result.phantom.count(), 1);
        prop_assert_eq!(result.lost.count(), 0);
    }

    #[test]
    fn every_missing_event_before_the_confirmed_position_is_found(
        keys in keys(), pick in any::<Index>(), confirmed in any::<Index>(),
    ) {
        let (truth, records) = source(&keys);
        let commits: BTreeMap<u32, PgLsn> =
            truth.events.iter().map(|event| (event.xid, PgLsn::from(u64::from(event.xid)))).collect();
        let gone = pick.index(records.len());
        let confirmed = confirmed.index(records.len());
        let position = commits[&truth.events[confirmed].xid];
        let mut log = records.clone();
        log.remove(gone);
        let ahead = confirmed_ahead(&truth, &commits, position, &append(log)).unwrap();
        let expected = (gone <= confirmed).then(|| truth.events[gone].id);
        prop_assert_eq!(ahead, Vec::from_iter(expected));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rollback {
    Told,
    Untold,
}

impl Arbitrary for Rollback {
    type Parameters = ();
    type Strategy = BoxedStrategy<Self>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        prop_oneof![Just(Self::Told), Just(Self::Untold)].boxed()
    }
}

/// Changes one part of a record; its id stays readable.
fn alter(record: &mut ConsumedRecord, part: usize) {
    match part {
        0 => record.value.as_mut().unwrap().push(b'!'),
        1 => record.key = None,
        2 => record.headers.truncate(1),
        3 => record.headers.push(("id".to_owned(), Some(b"again".to_vec()))),
        _ => record.topic = Arc::from("outbox.event.other"),
    }
}

fn log_of(order: &[usize]) -> Vec<ConsumedRecord> {
    let (_, records) = source(&[0; 6]);
    append(order.iter().map(|n| records[*n].clone()))
}

#[test]
fn a_replay_that_leaves_an_event_out_counts_as_incomplete() {
    let (truth, _) = source(&[0; 6]);
    let result = result(&truth, &log_of(&[0, 1, 2, 3, 1, 3, 4, 5]));
    assert_eq!((result.incomplete_replays.count(), result.duplicates), (1, 2));
}

#[test]
fn records_of_an_older_session_may_arrive_late_only_with_two_routers() {
    let (truth, _) = source(&[0; 6]);
    let log = log_of(&[0, 1, 2, 3, 4, 1, 2, 5]);
    assert_eq!(result(&truth, &log).incomplete_replays.count(), 1);
    let options = CheckOptions { late_replays: LateReplays::Allowed };
    assert!(check(&truth, &log, &options).is_clean());
}

#[test]
fn a_record_without_an_id_counts_as_a_phantom() {
    let (truth, mut records) = source(&[0, 0]);
    records[1].headers.clear();
    let result = result(&truth, &append(records));
    assert_eq!((result.phantom.count(), result.lost.count()), (1, 1));
}

#[test]
fn a_contradiction_in_the_table_of_committed_events_is_reported() {
    let (mut truth, records) = source(&[0, 0]);
    truth.rolled_back.insert(truth.events[0].id);
    assert!(!result(&truth, &append(records)).is_clean());
}

#[test]
fn a_commit_that_the_tracker_missed_is_an_error() {
    let (truth, records) = source(&[0]);
    confirmed_ahead(&truth, &BTreeMap::new(), PgLsn::from(0), &records).unwrap_err();
}

#[test]
fn the_summary_is_one_line() {
    let (truth, mut records) = source(&[0, 0, 0]);
    records.pop();
    let result = result(&truth, &append(records));
    assert_eq!(
        result.to_string(),
        "sent 3 · in Kafka 2 · lost 1 · duplicates 0 · order violations 0"
    );
    let message = result.clean().unwrap_err().to_string();
    assert!(message.contains("lost: event 00000000-0000-0000-0000-000000000003"), "{message}");
}
