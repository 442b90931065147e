use std::num::NonZeroI32;

use super::*;
use crate::{
    partition_for_key,
    testing::{
        MemorySink, ProducedRecord,
        wire::{self, TEXT, Value},
    },
};

const COLUMNS: [(&str, u32); 5] = [
    ("id", TEXT),
    ("aggregate_type", TEXT),
    ("aggregate_id", TEXT),
    ("event_type", TEXT),
    ("payload", TEXT),
];
const TABLE: u32 = 7;

fn row(id: &str, key: Option<&str>) -> Vec<u8> {
    let key = key.map_or(Value::Null, Value::Text);
    let values =
        [Value::Text(id), Value::Text("order"), key, Value::Text("made"), Value::Text("{}")];
    wire::insert_message(TABLE, &values)
}

fn facts(partitions: i32) -> TopicFacts {
    TopicFacts { partitions: NonZeroI32::new(partitions).unwrap(), max_message_bytes: None }
}

struct Run {
    republish: Republish,
    sink: MemorySink,
}

impl Run {
    fn new(settings: RepublishSettings) -> Self {
        let tables = TableOids::default();
        let mut republish = Republish::new(Outboxes::default(), tables, settings).unwrap();
        let relation = wire::relation_message(TABLE, "outbox", &COLUMNS);
        republish.describe(&relation).unwrap();
        Self { republish, sink: MemorySink::new(10_000) }
    }

    /// Offers a row; the topics that it needs have `partitions`.
    fn offer_with(&mut self, message: &[u8], partitions: i32) -> Offered {
        let at = PgTimestamp::from_micros(1_000_000);
        loop {
            let offered = self.republish.offer(message, at, &mut self.sink).unwrap();
            let Offered::LookUpTopic(id, _) = offered else { return offered };
            self.republish.topic(id, facts(partitions));
        }
    }

    fn offer(&mut self, message: &[u8]) -> Offered {
        self.offer_with(message, 3)
    }

    /// Acknowledges the oldest record of one partition.
    fn ack_one(&mut self, partition: i32) {
        let lane = (TopicId::from_index(0).unwrap(), partition);
        self.sink.store(lane).unwrap();
        let mut acks = Acks::default();
        self.sink.ack(lane, &mut acks);
        self.republish.acknowledged(&acks);
    }

    fn ack_all(&mut self) {
        let acks = self.sink.ack_all();
        self.republish.acknowledged(&acks);
    }

    fn produced(&self) -> &[ProducedRecord] {
        self.sink.produced()
    }
}

#[test]
fn a_row_becomes_the_record_of_the_stream() {
    let mut run = Run::new(RepublishSettings::default());
    assert!(matches!(run.offer(&row("1", Some("k"))), Offered::Produced));
    let [record] = run.produced() else { panic!("one record") };
    let names: Vec<&str> = record.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((record.key.as_slice(), names), (b"k".as_slice(), vec!["id", "type"]));
    assert_eq!(record.partition, partition_for_key(b"k", NonZeroI32::new(3).unwrap()));
    assert_eq!(record.timestamp_ms, PgTimestamp::from_micros(1_000_000).unix_millis());
}

#[test]
fn a_marker_is_the_last_header() {
    let marker = Some("outbox_replay".to_owned());
    let mut run = Run::new(RepublishSettings { marker, ..RepublishSettings::default() });
    run.offer(&row("1", Some("k")));
    let [record] = run.produced() else { panic!("one record") };
    let last = record.headers.last().unwrap();
    assert_eq!(*last, ("outbox_replay".to_owned(), Some(b"1".to_vec())));
    assert_eq!(record.headers.len(), 3);
}

#[test]
fn all_records_go_to_the_topic_that_is_given_by_its_own_partitions() {
    let to_topic = Some(TopicName::new("copy").unwrap());
    let mut run = Run::new(RepublishSettings { to_topic, ..RepublishSettings::default() });
    for key in ["a", "b", "c", "d"] {
        assert!(matches!(run.offer_with(&row("1", Some(key)), 7), Offered::Produced));
    }
    for record in run.produced() {
        let name = run.republish.topic_name(record.topic).unwrap();
        assert_eq!(name.as_str(), "copy");
        let expected = partition_for_key(&record.key, NonZeroI32::new(7).unwrap());
        assert_eq!(record.partition, expected);
    }
}

#[test]
fn a_record_that_is_larger_than_the_given_topic_takes_is_refused() {
    let to_topic = Some(TopicName::new("copy").unwrap());
    let mut run = Run::new(RepublishSettings { to_topic, ..RepublishSettings::default() });
    let at = PgTimestamp::from_micros(0);
    let refused = loop {
        let offered = run.republish.offer(&row("9", Some("k")), at, &mut run.sink).unwrap();
        let Offered::LookUpTopic(id, name) = offered else { break offered };
        let max_message_bytes = (name.as_str() == "copy").then_some(20);
        run.republish.topic(id, TopicFacts { max_message_bytes, ..facts(3) });
    };
    let Offered::Refused(failure, id) = refused else { panic!("{refused:?}") };
    assert_eq!((failure.code, id.as_deref()), (Code::RecordTooLarge, Some(b"9".as_slice())));
    assert_eq!(run.republish.in_flight(), 0);
}

#[test]
fn a_row_is_refused_whose_topic_no_cluster_has() {
    let mut run = Run::new(RepublishSettings::default());
    let at = PgTimestamp::from_micros(0);
    let refused = loop {
        let offered = run.republish.offer(&row("9", Some("k")), at, &mut run.sink).unwrap();
        let Offered::LookUpTopic(id, _) = offered else { break offered };
        run.republish.no_topic(id, Failure::new(Code::TopicIllegal, "it collides"));
    };
    let Offered::Refused(failure, id) = refused else { panic!("{refused:?}") };
    assert_eq!((failure.code, id.as_deref()), (Code::TopicIllegal, Some(b"9".as_slice())));
    run.republish.leave_out();
    assert_eq!(run.republish.settled(), 1);
}

#[test]
fn rows_are_settled_from_the_first_on_and_in_no_other_order() {
    let mut run = Run::new(RepublishSettings::default());
    // One partition's records are acknowledged, and the other's are not.
    let keys =
        ["a", "b"].map(|key| (key, partition_for_key(key.as_bytes(), NonZeroI32::new(3).unwrap())));
    assert_ne!(keys[0].1, keys[1].1);
    for number in 0..1_000 {
        let (key, _) = keys[usize::from(number % 2 == 1)];
        run.offer(&row(&number.to_string(), Some(key)));
    }
    assert_eq!((run.republish.settled(), run.republish.in_flight()), (0, 1_000));
    (0..500).for_each(|_| run.ack_one(keys[0].1));
    assert_eq!((run.republish.settled(), run.republish.in_flight()), (0, 500));
    (0..300).for_each(|_| run.ack_one(keys[1].1));
    let settled = run.republish.settled();
    assert!((344..=600).contains(&settled), "{settled}");
    run.ack_all();
    assert_eq!((run.republish.settled(), run.republish.in_flight()), (1_000, 0));
}

#[test]
fn a_row_that_is_left_out_is_settled_with_those_before_it() {
    let mut run = Run::new(RepublishSettings::default());
    run.offer(&row("1", Some("a")));
    let refused = run.offer(&row("2", None));
    let Offered::Refused(failure, id) = refused else { panic!("{refused:?}") };
    assert_eq!((failure.code, id.as_deref()), (Code::KeyIsNull, Some(b"2".as_slice())));
    run.republish.leave_out();
    assert_eq!(run.republish.settled(), 0);
    run.ack_all();
    assert_eq!(run.republish.settled(), 2);
}

#[test]
fn a_full_producer_takes_the_row_later_and_a_closed_one_never() {
    let mut run = Run::new(RepublishSettings::default());
    run.sink = MemorySink::new(1);
    assert!(matches!(run.offer(&row("1", Some("a"))), Offered::Produced));
    assert!(matches!(run.offer(&row("2", Some("a"))), Offered::Full));
    assert_eq!(run.republish.in_flight(), 1, "the ticket came back");
    run.ack_all();
    assert!(matches!(run.offer(&row("2", Some("a"))), Offered::Produced));
    let first = run.sink.waiting()[0];
    run.sink.fail(first);
    assert!(matches!(run.offer(&row("3", Some("a"))), Offered::Closed));
    assert_eq!(run.republish.settled(), 1);
}

#[test]
fn a_row_that_is_larger_than_rows_may_be_is_refused_by_its_beginning() {
    let mut run = Run::new(RepublishSettings::default());
    let whole = row("9", Some("k"));
    let prefix = whole.get(..whole.len() - 4).unwrap();
    let refused = run.republish.offer_oversized(1_000, prefix, 100).unwrap();
    let Offered::Refused(failure, None) = refused else { panic!("{refused:?}") };
    assert_eq!(failure.code, Code::RowTooLarge);
    assert!(failure.message.contains("id 9") && failure.message.contains("1000 bytes"));
    assert_eq!((run.republish.settled(), run.produced().len()), (0, 0));
    run.republish.leave_out();
    assert_eq!(run.republish.settled(), 1);
}

#[test]
fn only_messages_that_describe_a_table_describe_one() {
    let mut run = Run::new(RepublishSettings::default());
    assert!(run.republish.describe(&row("1", None)).is_err());
    let at = PgTimestamp::from_micros(0);
    let relation = wire::relation_message(TABLE, "outbox", &COLUMNS);
    assert!(run.republish.offer(&relation, at, &mut run.sink).is_err());
}
