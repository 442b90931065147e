//! What the record of a dead letter in its topic shows of the record that it would have been: what
//! is wrong with one part leaves out no other.

use super::*;
use crate::routing::table::{BytesFormat, ExpandJson};

const LEFT_OUT: &str = "__outbox_router.errors.value_left_out";
const TOPIC: &str = "__outbox_router.errors.topic";
const ORDER: &str = "outbox.event.order";
const CODE: &str = "__outbox_router.errors.code";

fn shown() -> HeldSettings {
    HeldSettings { topic: Some(TopicName::new("letters").unwrap()), ..dead_letters() }
}

/// `id`, `aggregate_type`, `aggregate_id`, `event_type`, `payload` and `headers`.
fn row(values: [Value<'_>; 6]) -> Vec<u8> {
    wire::insert(1, OUTBOX, &values)
}

/// The record that shows the dead letter that this row becomes.
fn letter_of(script: &mut Script, row: &[u8]) -> ProducedRecord {
    script.rows(24, &[row.to_vec()]);
    script.catch_up();
    let [letter] = script.sink.produced() else { panic!("{:?}", script.sink.produced()) };
    letter.clone()
}

fn some(text: &str) -> Option<Option<String>> {
    Some(Some(text.to_owned()))
}

#[test]
fn an_illegal_topic_leaves_out_the_topic_alone() {
    let values = ["1", "no topic", "b", "Happened", "{}", r#"{"tenant": "t"}"#].map(Value::Text);
    let letter = letter_of(&mut streaming(shown()), &row(values));
    assert_eq!(header(&letter, CODE), some("R003"));
    assert_eq!((letter.key.as_slice(), letter.value.as_deref()), (&b"b"[..], Some(&b"{}"[..])));
    assert_eq!(header(&letter, "id"), some("1"));
    assert_eq!(header(&letter, "type"), some("Happened"));
    assert_eq!(header(&letter, "tenant"), some("t"));
    assert_eq!((header(&letter, TOPIC), header(&letter, LEFT_OUT)), (Some(None), None));
}

#[test]
fn malformed_headers_leave_out_the_rows_own_alone() {
    for headers in ["no object", r#"{"tenant": "t", "id": "2"}"#] {
        let values = ["1", "order", "b", "Happened", "{}", headers].map(Value::Text);
        let letter = letter_of(&mut streaming(shown()), &row(values));
        assert_eq!(header(&letter, CODE), some("R009"));
        assert_eq!((letter.key.as_slice(), letter.value.as_deref()), (&b"b"[..], Some(&b"{}"[..])));
        assert_eq!(header(&letter, "id"), some("1"));
        assert_eq!(header(&letter, "type"), some("Happened"));
        assert_eq!(header(&letter, "tenant"), None, "all of them, or none");
        assert_eq!((header(&letter, TOPIC), header(&letter, LEFT_OUT)), (some(ORDER), None));
    }
}

#[test]
fn a_value_that_is_null_is_not_left_out() {
    let mut values = ["1", "no topic", "b", "Happened", "", "{}"].map(Value::Text);
    values[4] = Value::Null;
    let letter = letter_of(&mut streaming(shown()), &row(values));
    assert_eq!((&letter.value, header(&letter, LEFT_OUT)), (&None, None));
}

#[test]
fn a_row_that_did_not_arrive_whole_shows_what_has_arrived() {
    let values = ["1", "order", "b", "Happened", "{}", r#"{"tenant": "t"}"#].map(Value::Text);
    let row = row(values);
    // The row ends within its headers, and within its payload.
    for (missing, value) in [(3, Some(b"{}".to_vec())), (22, None)] {
        let mut script = streaming(shown());
        script.begin(24);
        let outcome = script.oversized(5_000_000, &row[..row.len() - missing]);
        assert_eq!(outcome, FrameOutcome::NotTaken, "the topic of dead letters is looked up");
        let Some(Action::LookUpTopic(topic, _)) = script.actions.pop_back() else {
            panic!("the topic is looked up")
        };
        script.handle(Input::Topic(topic, Ok(facts(3))));
        let outcome = script.oversized(5_000_000, &row[..row.len() - missing]);
        assert_eq!(outcome, FrameOutcome::Taken);
        script.commit(24);
        script.catch_up();
        let [letter] = script.sink.produced() else { panic!("one letter") };
        assert_eq!(header(letter, CODE), some("R005"));
        assert_eq!((letter.key.as_slice(), &letter.value), (&b"b"[..], &value));
        assert_eq!(header(letter, "id"), some("1"));
        assert_eq!(header(letter, "type"), some("Happened"));
        assert_eq!((header(letter, "tenant"), header(letter, TOPIC)), (None, some(ORDER)));
        assert_eq!(header(letter, LEFT_OUT), value.is_none().then(|| Some("true".to_owned())));
    }
}

#[test]
fn a_value_that_cannot_be_made_is_left_out_and_the_headers_are_not() {
    let mut settings = with_table(shown());
    let table = &mut settings.outboxes.tables[0];
    (table.value_format, table.expand_json) = (BytesFormat::Json, ExpandJson::AsItIs);
    let mut script = streaming_with(settings);
    let values = ["1", "order", "b", "Happened", "no JSON", r#"{"tenant": "t"}"#].map(Value::Text);
    let letter = letter_of(&mut script, &row(values));
    assert_eq!(header(&letter, CODE), some("R014"));
    assert_eq!((letter.key.as_slice(), &letter.value), (&b"b"[..], &None));
    assert_eq!((header(&letter, TOPIC), header(&letter, LEFT_OUT)), (some(ORDER), some("true")));
    assert_eq!((header(&letter, "id"), header(&letter, "tenant")), (some("1"), some("t")));
}

/// It was held behind a dead letter, so it is read from the table.
#[test]
fn an_event_that_is_refused_when_its_turn_comes_is_shown_as_well() {
    let mut script = streaming(shown());
    let values = ["2", "no topic", "b", "Happened", "{}", "{}"].map(Value::Text);
    script.rows(24, &[poison("b"), row(values)]);
    script.catch_up();
    script.sink.forget();
    script.table().decide(id(24, 0), Decision::Drop);
    script.catch_up();
    let [letter] = script.sink.produced() else { panic!("one letter") };
    assert_eq!(header(letter, CODE), some("R003"));
    assert_eq!((letter.key.as_slice(), letter.value.as_deref()), (&b"b"[..], Some(&b"{}"[..])));
    assert_eq!((header(letter, "id"), header(letter, LEFT_OUT)), (some("2"), None));
}
