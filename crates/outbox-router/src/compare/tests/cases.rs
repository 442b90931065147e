//! One case each.

use std::collections::BTreeMap;

use relay::{Code, Failure, TopicName};

use super::{ENDS, Planted, alter, elsewhere, event, found, record_of};
use crate::{
    compare::{Comparison, Expected, Finding, IdHeaders, Limits, Report},
    kafka::StoredRecord,
};

#[test]
fn headers_that_name_the_connector_are_not_compared() {
    let mut comparison = Comparison::new(IdHeaders::new(["id"]), Limits::default());
    comparison.begin_topic(&TopicName::new("t").unwrap(), [0]);
    let mut record = record_of(&event(1, 0));
    let context = |name: &str| (format!("__debezium.context.{name}"), Some(b"0".to_vec()));
    record.headers.insert(0, context("taskId"));
    record.headers.insert(0, context("runId"));
    comparison.stored(record);
    comparison.stored(StoredRecord { offset: 1, ..record_of(&event(2, 0)) });
    comparison.expect(event(1, 0));
    let mut configured = event(2, 0);
    configured.headers.push(context("taskId"));
    comparison.expect(configured);
    let report = comparison.finish();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.same, report.with_context_headers), (2, 1));
}

#[test]
fn records_from_before_the_slots_position_are_no_difference() {
    let mut comparison = Comparison::new(IdHeaders::new(["id"]), Limits::default());
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
    let mut comparison = Comparison::new(IdHeaders::new(["id"]), Limits::default());
    comparison.begin_topic(&TopicName::new("t").unwrap(), [2]);
    comparison.stored(StoredRecord { offset: 2, ..record_of(&event(100, 0)) });
    assert_eq!(found(&comparison.finish()), [("additional", 1)].into());
}

/// There was no room for more than four events until the record of the tenth was decided.
fn with_an_early_record() -> Comparison {
    let limits = Limits { waiting: 4, ..Limits::default() };
    let mut comparison = Comparison::new(IdHeaders::new(["id"]), limits);
    comparison.begin_topic(&TopicName::new("t").unwrap(), [0]);
    comparison.stored(record_of(&event(9, 0)));
    for number in 0..4 {
        comparison.expect(event(number, 0));
    }
    assert!(comparison.is_full());
    comparison.decide_by_order();
    comparison
}

#[test]
fn a_record_far_ahead_of_its_turn_is_out_of_order_and_not_additional() {
    let mut comparison = with_an_early_record();
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
fn records_of_an_event_that_is_not_compared_are_no_difference() {
    let mut comparison = Comparison::new(IdHeaders::new(["id"]), Limits::default());
    comparison.begin_topic(&TopicName::new("t").unwrap(), [0]);
    comparison.skip(b"event-7");
    comparison.stored(record_of(&event(7, 0)));
    comparison.stored(StoredRecord { offset: 1, ..record_of(&event(7, 0)) });
    let report = comparison.finish();
    assert_eq!(found(&report), BTreeMap::new(), "{report:?}");
}

#[test]
fn a_record_that_was_decided_before_its_event_was_skipped_is_not_additional() {
    let mut comparison = with_an_early_record();
    assert_eq!(found(comparison.report()), [("additional", 1)].into());
    comparison.skip(b"event-9");
    for (offset, number) in (1..).zip(0..4) {
        comparison.stored(StoredRecord { offset, ..record_of(&event(number, 0)) });
    }
    assert_eq!(found(&comparison.finish()), BTreeMap::new());
}

#[test]
fn a_row_at_which_run_would_stop_is_a_finding_and_its_record_no_second_one() {
    let mut comparison = Comparison::new(IdHeaders::new(["id"]), Limits::default());
    comparison.begin_topic(&TopicName::new("t").unwrap(), [0]);
    comparison.refuse(&Failure::new(Code::KeyIsNull, "its key is NULL"), Some(b"event-7"));
    comparison.stored(record_of(&event(7, 0)));
    let report = comparison.finish();
    assert_eq!(found(&report), [("refused", 1)].into());
    let ours: Vec<Option<&str>> = report
        .findings()
        .flat_map(|(_, _, examples)| examples.iter().map(|example| example.ours.as_deref()))
        .collect();
    assert_eq!(ours, [Some("R001: its key is NULL")]);
}

#[test]
fn an_event_that_is_found_after_all_is_no_example_of_what_is_missing() {
    let limits = Limits { waiting: 4, ..Limits::default() };
    let mut comparison = Comparison::new(IdHeaders::new(["id"]), limits);
    comparison.begin_topic(&TopicName::new("t").unwrap(), [0]);
    for number in 0..4 {
        comparison.expect(event(number, 0));
    }
    for (offset, number) in (0..).zip([2, 3]) {
        comparison.stored(StoredRecord { offset, ..record_of(&event(number, 0)) });
        // Other events take the place of those that were found.
        comparison.expect(event(number + 2, 0));
    }
    assert!(comparison.is_full());
    comparison.decide_by_order();
    let examples = |report: &Report| {
        let missing = report.findings().find(|(finding, ..)| *finding == Finding::Missing);
        let (_, count, examples) = missing.unwrap();
        (count, examples.iter().map(|example| example.id.clone()).collect::<Vec<_>>())
    };
    let given_up = (2, vec!["event-0".to_owned(), "event-1".to_owned()]);
    assert_eq!(examples(comparison.report()), given_up);
    comparison.stored(StoredRecord { offset: 2, ..record_of(&event(0, 0)) });
    assert_eq!(examples(comparison.report()), (1, vec!["event-1".to_owned()]));
}

#[test]
fn a_record_in_another_topic_that_is_read_is_found_and_both_topics_are_named() {
    let mut comparison = Comparison::new(IdHeaders::new(["id"]), Limits::default());
    for topic in ["orders", "shipments"] {
        comparison.begin_topic(&TopicName::new(topic).unwrap(), ENDS);
    }
    comparison.expect(event(1, 0));
    let record = record_of(&event(1, 0));
    comparison.stored(StoredRecord { partition: elsewhere(record.partition), ..record });
    let report = comparison.finish();
    assert_eq!(found(&report), [("topic", 1)].into(), "{report:?}");
    let (_, _, [example]) = report.findings().next().unwrap() else { panic!("{report:?}") };
    assert_eq!(example.at, "shipments-0@0");
    assert_eq!(example.ours.as_deref(), Some("orders"));
    assert_eq!(example.theirs.as_deref(), Some("shipments"));
}

#[test]
fn an_event_that_is_found_after_all_is_compared_in_every_part() {
    let limits = Limits { waiting: 12, ..Limits::default() };
    let differences = [
        Planted::Topic,
        Planted::Partition,
        Planted::Key,
        Planted::Value,
        Planted::Header,
        Planted::Timestamp,
    ];
    for planted in differences {
        let mut comparison = Comparison::new(IdHeaders::new(["id"]), limits);
        for topic in ["t", "elsewhere"] {
            comparison.begin_topic(&TopicName::new(topic).unwrap(), ENDS);
        }
        (0..12).for_each(|number| comparison.expect(event(number, 0)));
        for (offset, number) in (0..).zip(1..12) {
            comparison.stored(StoredRecord { offset, ..record_of(&event(number, 0)) });
            // Other events take the place of those that were found.
            comparison.expect(event(number + 11, 0));
        }
        assert!(comparison.is_full());
        comparison.decide_by_order();
        assert_eq!(found(comparison.report()), [("missing", 1)].into());
        let mut record = StoredRecord { offset: 11, ..record_of(&event(0, 0)) };
        let kind = alter(&mut record, planted).unwrap();
        comparison.stored(record);
        let found = found(comparison.report());
        assert_eq!((found.get("missing"), found.get(kind)), (None, Some(&1)), "{planted:?}");
    }
}

#[test]
fn each_table_may_have_its_own_header_for_the_id() {
    let mut comparison = Comparison::new(IdHeaders::new(["id", "event-id"]), Limits::default());
    comparison.begin_topic(&TopicName::new("t").unwrap(), ENDS);
    for number in 0..2 {
        let mut expected = event(number, 0);
        let name = if number == 0 { "id" } else { "event-id" };
        expected.headers[0].0 = name.to_owned();
        comparison.expect(expected.clone());
        let offset = i64::try_from(number).unwrap();
        comparison.stored(StoredRecord { offset, ..record_of(&expected) });
    }
    let report = comparison.finish();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.same, 2);
}

#[test]
fn an_event_without_an_id_is_a_finding_and_does_not_end_the_comparison() {
    let names = IdHeaders::new(["id"]);
    let headers = |id: Option<&[u8]>| vec![("id".to_owned(), id.map(<[u8]>::to_vec))];
    assert_eq!(names.id_of(&headers(Some(b"7"))), Some(b"7".as_slice()));
    assert_eq!(names.id_of(&headers(None)), None);
    assert_eq!(names.id_of(&[("other".to_owned(), Some(b"7".to_vec()))]), None);
    let mut comparison = Comparison::new(names, Limits::default());
    comparison.begin_topic(&TopicName::new("t").unwrap(), [0]);
    comparison.expect_without_id("t-0, committed at 0/64".to_owned());
    comparison.expect(event(1, 0));
    comparison.stored(record_of(&event(1, 0)));
    let report = comparison.finish();
    assert_eq!(found(&report), [("no id", 1)].into(), "{report:?}");
    assert_eq!((report.events, report.same), (2, 1));
}

#[test]
fn the_partition_of_a_topic_that_does_not_exist_is_not_known() {
    let mut comparison = Comparison::new(IdHeaders::new(["id"]), Limits::default());
    comparison.begin_topic(&TopicName::new("orders").unwrap(), []);
    comparison.expect(event(1, 0));
    let report = comparison.finish();
    let (_, _, [example]) = report.findings().next().unwrap() else { panic!("{report:?}") };
    assert_eq!(example.at, "orders-?");
}

#[test]
fn an_example_says_where_and_what() {
    let mut comparison = Comparison::new(IdHeaders::new(["id"]), Limits::default());
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
