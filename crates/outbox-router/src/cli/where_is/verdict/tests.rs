use relay::TopicName;

use super::*;
use crate::{
    cli::{
        status::{AtRisk, OpenGap, Summary},
        where_is::evidence::{Interval, tests::row},
    },
    kafka::Retention,
};

fn stream(flow: Flow) -> Stream {
    let summary = Summary { flow, first: None, left_out: None, gaps: Vec::new() };
    Stream { summary, confirmed: Some(Lsn::from_u64(7)), gaps: Vec::new() }
}

fn topic(low: i64, left: Left, retention: Retention) -> TopicState {
    TopicState { name: TopicName::new("t").unwrap(), low, left, age_ms: 5_000, retention }
}

fn event(written_ms: i64) -> Event {
    Event { row: Some(row(Some(written_ms))), ending: Some(Ending::Read), ..Event::default() }
}

fn state(event: &Event, stream: &Stream) -> State {
    judge(event, Some(stream), "").state
}

#[test]
fn what_is_not_confirmed_is_in_flight_where_a_router_runs_and_waits_elsewhere() {
    assert_eq!(state(&event(1), &stream(Flow::Running)), State::InFlight);
    assert_eq!(state(&event(1), &stream(Flow::Stopped)), State::Waiting);
    assert_eq!(state(&event(1), &stream(Flow::NoSlot)), State::Waiting);
}

#[test]
fn what_is_confirmed_and_not_there_has_a_cause_by_what_the_topic_has_left() {
    let confirmed = |topic| Event { is_confirmed: true, topic: Some(topic), ..event(1) };
    let state = |event: &Event| state(event, &stream(Flow::Running));
    let keeps = Retention::default;
    let compacted = || Retention { is_compacted: true, ..keeps() };
    for (topic, expected) in [
        (topic(0, Left::AsOld, keeps()), State::Missing),
        (topic(3, Left::AsOld, keeps()), State::Missing),
        (topic(3, Left::Younger, keeps()), State::Expired),
        (topic(0, Left::Younger, keeps()), State::Missing),
        (topic(0, Left::AllYounger, keeps()), State::BeforeTopic),
        (topic(0, Left::AllYounger, compacted()), State::Expired),
        (topic(0, Left::AsOld, compacted()), State::Expired),
    ] {
        assert_eq!(state(&confirmed(topic.clone())), expected, "{topic:?}");
    }
    let unread =
        Event { ending: Some(Ending::TimeUp), ..confirmed(topic(0, Left::AsOld, keeps())) };
    assert_eq!(state(&unread), State::Unknown, "not every record was read");
}

/// The slot of such an event may be much older than it.
#[test]
fn where_a_topic_begins_later_both_causes_are_named_and_what_sends_the_event() {
    let topic = topic(0, Left::AllYounger, Retention::default());
    let id = "e-101".to_owned();
    let event = Event { id, is_confirmed: true, topic: Some(topic), ..event(1) };
    let verdict = judge(&event, Some(&stream(Flow::Running)), "");
    for expected in ["the slot has passed it", "its records were removed", "before the slot"] {
        assert!(verdict.reason.contains(expected), "{}", verdict.reason);
    }
    let hint = verdict.hint.unwrap();
    assert!(hint.contains("outbox-router replay --id e-101 --admin-url "), "{hint}");
    let odd = Event { id: "a; b".to_owned(), ..event };
    let hint = judge(&odd, Some(&stream(Flow::Running)), "").hint.unwrap();
    assert!(hint.contains("--id ID "), "{hint}");
}

#[test]
fn a_retention_that_is_longer_than_the_events_age_has_deleted_nothing() {
    let reason = |millis| {
        let retention = Retention { millis: Some(millis), ..Retention::default() };
        expired(&topic(3, Left::Younger, retention)).reason
    };
    assert!(reason(5_000).contains("(retention.ms=5000, 5 s)"), "{}", reason(5_000));
    assert!(reason(5_001).contains("(somebody has told it to)"), "{}", reason(5_001));
}

#[test]
fn a_row_lies_in_a_gap_by_its_time_and_after_it_where_there_is_no_slot() {
    let gap = OpenGap {
        name: "P010@0/1".to_owned(),
        code: "P010".to_owned(),
        message: "gone".to_owned(),
        hint: Some("accept".to_owned()),
        at_risk: AtRisk { from: None, to: None },
    };
    let with_gap = |flow, from, to| {
        let gaps = vec![(Interval { from, to }, gap.clone())];
        Stream { gaps, ..stream(flow) }
    };
    let within = with_gap(Flow::Stopped, Some(1_000), Some(2_000));
    assert_eq!(state(&event(1_000), &within), State::Gap);
    assert_eq!(state(&event(2_999), &within), State::Gap, "the fraction is not written");
    assert_eq!(state(&event(999), &within), State::Waiting);
    assert_eq!(state(&event(3_000), &within), State::Waiting);
    assert_eq!(state(&event(1), &with_gap(Flow::Stopped, None, None)), State::Gap);
    let no_slot = with_gap(Flow::NoSlot, Some(1_000), Some(2_000));
    assert_eq!(state(&event(3_000), &no_slot), State::Gap);
    let verdict = judge(&event(1_000), Some(&within), "");
    assert_eq!((verdict.code.as_deref(), verdict.hint.as_deref()), (Some("P010"), Some("accept")));
}

#[test]
fn a_state_has_one_word_for_programs() {
    assert_eq!(State::BeforeTopic.word(), "before_topic");
    assert_eq!(State::InFlight.word(), "in_flight");
    assert_eq!(State::DeadLettered.word(), "dead_lettered");
    assert_eq!(State::NotCommitted.word(), "not_committed");
}
