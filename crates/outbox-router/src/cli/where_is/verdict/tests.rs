use relay::{Code, Failure, TableName, TopicName, source};

use super::*;
use crate::cli::where_is::search::Ending;
use crate::{
    cli::{
        status::{AtRisk, OpenGap, Summary},
        where_is::{
            evidence::{Doubt, Interval, Mark, tests::row},
            search::FoundRecord,
        },
    },
    kafka::Retention,
    polling::sql::{RowMarks, RowState, Stuck},
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
    // An UPDATE may have made it no event since.
    let by = "status is done".to_owned();
    let filtered = |at| Event { placement: Some(Placement::Filtered(by.clone())), ..event(at) };
    assert_eq!(state(&filtered(1_000), &within), State::Gap);
    let waiting = judge(&filtered(999), Some(&within), "");
    assert_eq!(waiting.state, State::Filtered);
    assert!(waiting.reason.contains("may have been an event"), "{}", waiting.reason);
    let passed = Event { is_confirmed: true, ..filtered(999) };
    let passed = judge(&passed, Some(&within), "").reason;
    assert_eq!(passed, "the table's filter leaves it out: status is done");
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
fn a_record_like_the_row_is_no_proof_where_its_id_may_have_come_again() {
    let topic = TopicName::new("t").unwrap();
    let found = FoundRecord { topic, partition: 0, offset: 7, timestamp_ms: 0, key: None };
    let of = |doubt| Event { found: Some(found.clone()), doubt, ..event(1) };
    let judged = |doubt| judge(&of(doubt), None, "");
    assert_eq!(judged(None).state, State::Acknowledged);
    let at = |lsn| source::Mark { lsn: Lsn::from_u64(lsn), at: None };
    let interval = source::Interval { from: None, to: at(9) };
    let gap = source::Gap { failure: Failure::new(Code::SlotMissing, "gone"), interval };
    let in_gap = judged(Some(Doubt::Gap(Box::new(gap))));
    assert_eq!((in_gap.state, in_gap.code.as_deref()), (State::Gap, Some("P010")));
    let unread = Failure::new(Code::ServerUnreachable, "no answer");
    let unknown = judged(Some(Doubt::Unknown(Box::new(unread))));
    assert_eq!(unknown.state, State::Unknown);
    assert!(unknown.reason.ends_with("whether a gap is open is not known, no answer"));
}

/// A polled row whose record was not found.
fn polled(state: RowState, attempts: i64, error: Option<&str>) -> Event {
    let (attempts, error) = (Some(attempts), error.map(str::to_owned));
    let marks = RowMarks { state, attempts, error, available_ms: Some(1_767_225_600_000) };
    let is_confirmed = state == RowState::Published;
    let id = "e-7".to_owned();
    Event { id, is_confirmed, mark: Some(Mark::Row(marks)), ..event(1) }
}

/// State, reason, code and hint; nothing is said about a slot.
#[track_caller]
fn expect(event: &Event, (state, reason): (State, &str), code: Option<&str>, hint: Option<&str>) {
    let verdict = judge(event, None, "");
    assert_eq!((verdict.state, verdict.reason.as_str()), (state, reason));
    assert_eq!((verdict.code.as_deref(), verdict.hint.as_deref()), (code, hint));
    assert!(!reason.contains("slot"));
}

#[test]
fn a_row_that_is_not_marked_is_pending() {
    let status = Some("outbox-router status");
    let pending = "pending: a worker has not sent it yet";
    expect(&polled(RowState::Pending, 0, None), (State::Waiting, pending), None, status);
    let requeued = polled(RowState::Pending, 0, Some("R009: bad"));
    expect(&requeued, (State::Waiting, pending), None, status);
    let again = "pending: a worker has not sent it yet, after 2 attempts: R009: bad";
    let tried = polled(RowState::Pending, 2, Some("R009: bad"));
    expect(&tried, (State::Waiting, again), Some("R009"), status);
    let claimed = "pending: a worker has claimed it, and has not sent it yet";
    expect(&polled(RowState::Claimed, 0, None), (State::Waiting, claimed), None, None);
    let later = "pending: not to be sent before 2026-01-01T00:00:00.000Z";
    expect(&polled(RowState::Later, 0, None), (State::Waiting, later), None, None);
}

/// It is the stream's to deliver.
#[test]
fn a_row_that_no_worker_takes_says_why() {
    let failure = Failure::new(Code::Switched, "table t was handed to the stream");
    let event = Event {
        mark: Some(Mark::Unpolled(Box::new(failure))),
        ..polled(RowState::Pending, 0, None)
    };
    let verdict = judge(&event, None, "");
    let reason = "its record was not found, its row is not marked as published, and table t was \
                  handed to the stream";
    assert_eq!((verdict.state, verdict.reason.as_str()), (State::Waiting, reason));
    assert_eq!(verdict.code.as_deref(), Some("P043"));
    assert!(verdict.hint.is_some_and(|hint| hint.contains("switch polling")));
}

#[test]
fn a_pending_row_that_cannot_be_routed_says_why() {
    let failure = Box::new(Failure::new(Code::TopicMissing, "topic t does not exist"));
    let placement = Some(Placement::NoTopic(TopicName::new("t").unwrap(), Some(failure)));
    let verdict = judge(&Event { placement, ..polled(RowState::Pending, 0, None) }, None, "");
    assert_eq!(verdict.state, State::Waiting);
    let reason = "pending: a worker has not sent it yet; topic t does not exist";
    assert_eq!((verdict.reason.as_str(), verdict.code.as_deref()), (reason, Some("K010")));
}

#[test]
fn a_row_that_was_tried_in_vain_says_how_often_and_why() {
    let at = "2026-01-01T00:00:00.000Z";
    let retried = format!("pending: to be tried again at {at}, after 1 attempt: R001: no header");
    expect(
        &polled(RowState::Retried, 1, Some("R001: no header")),
        (State::Waiting, retried.as_str()),
        Some("R001"),
        Some("outbox-router dead-letters list --waiting"),
    );
    expect(
        &polled(RowState::Abandoned, 5, Some("R001: no header")),
        (State::DeadLettered, "abandoned, after 5 attempts: R001: no header"),
        Some("R001"),
        Some("outbox-router dead-letters show --id e-7"),
    );
    // Another program's.
    let verdict = judge(&polled(RowState::Abandoned, 0, Some("no luck")), None, "");
    assert_eq!((verdict.reason.as_str(), verdict.code), ("abandoned: no luck", None));
}

#[test]
fn a_row_waits_behind_another_one_of_its_key() {
    let behind = |which| polled(RowState::Behind(which), 0, None);
    expect(
        &behind(Stuck::Abandoned),
        (State::Waiting, "pending: behind a row of its key that is abandoned"),
        None,
        Some("outbox-router dead-letters list"),
    );
    expect(
        &behind(Stuck::Waiting),
        (State::Waiting, "pending: behind a row of its key that waits for another attempt"),
        None,
        Some("outbox-router dead-letters list --waiting"),
    );
}

#[test]
fn what_is_marked_as_published_and_not_there_is_judged_as_what_a_slot_has_confirmed() {
    let keeps = Retention::default;
    let compacted = || Retention { is_compacted: true, ..keeps() };
    for (topic, expected, words) in [
        (topic(0, Left::AsOld, keeps()), State::Missing, "it is marked as published, and t does"),
        (topic(3, Left::Younger, keeps()), State::Expired, "has deleted its records"),
        (topic(0, Left::AllYounger, keeps()), State::BeforeTopic, "it is marked as published, and"),
        (topic(0, Left::AsOld, compacted()), State::Expired, "marked as published; t is compacted"),
    ] {
        let event = Event { topic: Some(topic), ..polled(RowState::Published, 0, None) };
        let verdict = judge(&event, None, "");
        assert_eq!(verdict.state, expected, "{}", verdict.reason);
        assert!(verdict.reason.contains(words), "{}", verdict.reason);
        assert!(!verdict.reason.contains("slot"), "{}", verdict.reason);
    }
    let unread = Event { ending: Some(Ending::TimeUp), ..polled(RowState::Published, 0, None) };
    assert_eq!(judge(&unread, None, "").state, State::Unknown);
    let dropped = polled(RowState::Published, 5, Some("dropped by ann as router: not needed"));
    let reason = "abandoned, and marked as published: dropped by ann as router: not needed";
    expect(&dropped, (State::Dropped, reason), None, None);
}

#[test]
fn marks_that_say_nothing_leave_the_state_unknown() {
    let state = |mark| judge(&Event { mark: Some(mark), ..event(1) }, None, "").state;
    assert_eq!(state(Mark::Gone), State::Unknown);
    assert_eq!(judge(&polled(RowState::Other, 0, None), None, "").state, State::Unknown);
    let failure = Failure::new(Code::Polling, "public.t cannot be polled: no key");
    let mark = Some(Mark::Unreadable(Box::new(failure)));
    let verdict = judge(&Event { mark, ..event(1) }, None, "");
    assert_eq!((verdict.state, verdict.code.as_deref()), (State::Unknown, Some("P041")));
}

#[test]
fn a_record_that_may_be_of_another_table_is_not_said_to_be_of_the_named_one() {
    let table = |name: &str| TableName { schema: "public".to_owned(), name: name.to_owned() };
    let found = FoundRecord {
        topic: TopicName::new("t").unwrap(),
        partition: 0,
        offset: 29,
        timestamp_ms: 1,
        key: None,
    };
    let of = |id: &str, others: Vec<TableName>| {
        let (id, found) = (id.to_owned(), Some(found.clone()));
        judge(&Event { id, found, asked: Some(table("d")), others, ..Event::default() }, None, "")
    };
    let alone = of("5", Vec::new());
    let reason = "public.d does not have its row any more; a record with its id, which alone says \
                  whose it is, is at offset 29 of t-0";
    assert_eq!((alone.state, alone.reason.as_str()), (State::Deleted, reason));
    let shared = of("5", vec![table("c")]);
    assert_eq!(shared.state, State::Unknown);
    assert!(shared.reason.contains("at offset 29 of t-0, and may be of another table"));
    assert_eq!(shared.hint.as_deref(), Some("outbox-router where 5 --table public.c"));
    let keyed = |others: Vec<TableName>| {
        let (id, found, asked_key) = ("5".to_owned(), Some(found.clone()), Some("k".to_owned()));
        let asked = Some(table("d"));
        judge(&Event { id, found, asked, asked_key, others, ..Event::default() }, None, "").reason
    };
    let reason = "public.d does not have its row any more; a record with its id and the key k is \
                  at offset 29 of t-0";
    assert_eq!(keyed(Vec::new()), reason);
    let reason = keyed(vec![table("c")]);
    assert!(reason.contains("a record with this id and the key k is at offset 29"), "{reason}");
    let unique = of(UUID, vec![table("c")]);
    assert_eq!(unique.state, State::Deleted, "no other row has this id");
    let nowhere = Event { asked: Some(table("d")), ..Event::default() };
    let reason = judge(&nowhere, None, "since then").reason;
    assert!(reason.starts_with("public.d does not have such a row, and no topic"), "{reason}");
}

const UUID: &str = "0198c3f2-7d1a-7c3e-8b4f-000000000001";

/// A record with the id of an event, and with the key c.
fn of_another_key() -> Option<FoundRecord> {
    Some(FoundRecord {
        topic: TopicName::new("t").unwrap(),
        partition: 0,
        offset: 29,
        timestamp_ms: 1,
        key: Some(b"c".to_vec()),
    })
}

#[test]
fn a_record_of_another_key_is_named_where_the_rows_own_is_not_found() {
    let topic = Some(topic(0, Left::AsOld, Retention::default()));
    let of_another_key = of_another_key();
    let sent = Event { topic, of_another_key, ..polled(RowState::Published, 0, None) };
    let verdict = judge(&sent, None, "");
    let reason = "it is marked as published, and t does not have it; a record with its id and \
                  another key, c, is at offset 29 of t-0: of another row, unless the key of this \
                  one, or the configuration's key, was changed since";
    assert_eq!((verdict.state, verdict.reason.as_str()), (State::Missing, reason));
    let pending = Event { is_confirmed: false, ..polled(RowState::Pending, 0, None) };
    let pending = Event { of_another_key: sent.of_another_key, ..pending };
    let reason = judge(&pending, None, "").reason;
    assert_eq!(reason, "pending: a worker has not sent it yet", "nothing else is expected");
}

#[test]
fn a_record_of_another_key_is_the_rows_own_where_its_id_is_a_uuid() {
    let reason = "at offset 29 of t-0, under another key than it would get now: the row's key or \
                  the configuration was changed since; the record's key is c";
    let topic = Some(topic(0, Left::AsOld, Retention::default()));
    let with_uuid = |event| {
        let (id, topic) = (UUID.to_owned(), topic.clone());
        Event { id, topic, of_another_key: of_another_key(), ..event }
    };
    let marked = with_uuid(polled(RowState::Published, 0, None));
    let verdict = judge(&marked, None, "");
    assert_eq!((verdict.state, verdict.reason.as_str()), (State::Acknowledged, reason));
    let confirmed = with_uuid(Event { is_confirmed: true, ..event(1) });
    let in_flight = with_uuid(event(1));
    for streamed in [confirmed, in_flight] {
        let verdict = judge(&streamed, Some(&stream(Flow::Running)), "");
        assert_eq!((verdict.state, verdict.reason.as_str()), (State::Acknowledged, reason));
    }
    let pending = with_uuid(polled(RowState::Pending, 0, None));
    assert_eq!(judge(&pending, None, "").state, State::Waiting, "its marks say that it is to come");
    let own = FoundRecord { offset: 30, ..of_another_key().unwrap() };
    let both = Event { found: Some(own), ..marked };
    assert_eq!(judge(&both, None, "").reason, "at offset 30 of t-0", "its own comes first");
}

#[test]
fn without_a_row_a_record_of_another_key_than_the_named_one_is_not_taken() {
    for id in ["5", UUID] {
        let (id, asked_key) = (id.to_owned(), Some("k".to_owned()));
        let of_another_key = of_another_key();
        let event = Event { id, asked_key, of_another_key, ..Event::default() };
        let verdict = judge(&event, None, "since then");
        assert_eq!(verdict.state, State::NotCommitted);
        let reason = verdict.reason;
        let end = "record older; a record with its id and another key than --key says, c, is at \
                   offset 29 of t-0";
        assert!(reason.ends_with(end), "{reason}");
    }
}

#[test]
fn a_state_has_one_word_for_programs() {
    assert_eq!(State::BeforeTopic.word(), "before_topic");
    assert_eq!(State::InFlight.word(), "in_flight");
    assert_eq!(State::DeadLettered.word(), "dead_lettered");
    assert_eq!(State::NotCommitted.word(), "not_committed");
}
