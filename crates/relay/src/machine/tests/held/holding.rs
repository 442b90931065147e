//! What goes into the table, and what follows while it is there.

use super::*;
use crate::{ColumnName, Role, failure::Case};

#[test]
fn later_events_of_a_dead_letters_key_are_held_and_other_keys_go_on() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[good("a"), poison("b"), good("b"), good("c")]);
    script.rows(40, &[good("b"), good("a")]);
    script.catch_up();
    assert_eq!(script.keys(), ["a", "c", "a"]);
    assert_eq!(script.states(), [HeldState::Held; 3]);
    let ids: Vec<_> = script.table().rows().map(|row| row.event.id).collect();
    assert_eq!(ids, [id(24, 1), id(24, 2), id(40, 0)]);
    assert_eq!(script.confirmed(), 48, "what is held is settled");
    assert_eq!(script.state(), (State::Streaming, None));
    let held = script.held();
    assert_eq!((held.keys, held.events), (1, 3));
    let letters = script.relay.take_letters();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].id, letters[0].code), (id(24, 1), Code::HeadersMalformed));
    assert_eq!(letters[0].event_id.as_deref(), Some("b"));
}

#[test]
fn nothing_is_confirmed_before_the_table_has_it() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("c")]);
    script.settle();
    script.tick_after(4_000);
    assert_eq!(script.confirmed(), 16);
    let asked: Vec<_> = script.actions();
    let number = asked.iter().find_map(number_of);
    let version = Some(TableVersion { origin: 0, writes: 1 });
    let mark = TableMark { version, open: 1 };
    script.handle(Input::Held(number.unwrap(), Ok(HeldAnswer::Inserted(mark))));
    script.tick_after(4_000);
    assert_eq!(script.confirmed(), 32);
}

#[test]
fn a_write_that_fails_is_repeated_and_the_state_names_the_reason() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b")]);
    let actions = script.actions();
    let Some(Action::Held(number, first)) =
        actions.into_iter().find(|action| matches!(action, Action::Held(..)))
    else {
        panic!("the table is asked")
    };
    script.handle(Input::Held(number, Err(failure(Code::HeldTable))));
    assert_eq!(script.state(), (State::Failed, Some(Code::HeldTable)));
    script.take_time(Duration::from_secs(31));
    let again = script.actions();
    assert!(
        again.iter().any(|action| matches!(action, Action::Held(_, request) if *request == first)),
        "{again:?}"
    );
    assert_eq!(script.confirmed(), 16);
}

#[test]
fn what_comes_again_is_found_in_the_table() {
    let mut script = streaming(dead_letters());
    let rows = [good("a"), poison("b"), good("b"), good("c")];
    script.rows(24, &rows);
    script.answer_table();
    let before: Vec<_> = script.table().rows().cloned().collect();
    script.reconnect();
    script.sink.forget();
    script.rows(24, &rows);
    script.rows(40, &[good("b")]);
    script.catch_up();
    assert_eq!(script.keys(), ["a", "c"]);
    let after: Vec<_> = script.table().rows().cloned().collect();
    assert_eq!(after[..2], before);
    assert_eq!(after.len(), 3);
    assert_eq!(script.confirmed(), 48);
    assert_eq!(script.held().events, 3);
}

#[test]
fn a_row_without_a_key_holds_nobody() {
    let mut script = streaming(dead_letters());
    let mut values = ["bad", "order", "", "Happened", "{}", "{}"].map(Value::Text);
    values[2] = Value::Null;
    let without_key = wire::insert(1, OUTBOX, &values);
    script.rows(24, &[without_key.clone(), good("a"), without_key]);
    script.catch_up();
    assert_eq!(script.keys(), ["a"]);
    assert_eq!(script.held().keys, 2, "each of them is held by itself");
}

#[test]
fn where_keys_are_not_held_the_next_event_of_the_key_passes() {
    let held = HeldSettings { hold_keys: HoldKeys::No, ..dead_letters() };
    let mut script = streaming(held);
    script.rows(24, &[poison("b"), good("b")]);
    script.catch_up();
    assert_eq!(script.keys(), ["b"]);
    assert_eq!(script.states(), [HeldState::Held]);
}

/// The next session has another setting: nothing is held behind the dead letter any more.
#[test]
fn what_comes_after_a_change_to_keys_that_are_not_held_passes() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("b")]);
    script.catch_up();
    let held = HeldSettings { hold_keys: HoldKeys::No, ..dead_letters() };
    let mut after = Script::new(with_table(held));
    after.source = script.source.clone();
    after.handle(Input::SinkReady);
    after.connect();
    after.describe_with_headers();
    after.rows(40, &[good("b")]);
    after.catch_up();
    assert_eq!(after.keys(), ["b"]);
    assert_eq!(after.states(), [HeldState::Held; 2]);
    after.table().decide(id(24, 0), Decision::Drop);
    after.catch_up();
    assert_eq!(after.states(), [HeldState::Dropped, HeldState::Delivered]);
}

#[test]
fn at_a_limit_the_session_waits_at_the_row() {
    let limits = HeldLimits { keys: 2, ..HeldLimits::default() };
    let mut script = streaming(HeldSettings { limits, ..dead_letters() });
    script.rows(24, &[poison("a"), poison("b"), good("a")]);
    script.begin(40);
    assert_eq!(script.frame(&poison("c")), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Failed, Some(Code::HeldFull)));
    script.answer_table();
    script.table().decide(id(24, 1), Decision::Drop);
    for _ in 0..40 {
        script.handle(Input::BytesArrived);
        script.tick_after(1_000);
        script.answer_table();
    }
    assert!(script.relay.wants_wal(), "there is room for another key");
    script.take(&poison("c"));
    script.commit(40);
}

#[test]
fn without_its_table_a_router_that_needs_it_does_not_stream() {
    let mut script = Script::new(with_table(dead_letters()));
    script.handle(Input::SinkReady);
    script.run_for(Duration::from_secs(1));
    script.answer();
    assert_eq!(script.state(), (State::Failed, Some(Code::HeldTable)));
}

#[test]
fn what_is_held_stays_held_when_no_error_makes_dead_letters_any_more() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b")]);
    script.catch_up();
    let source = script.source.clone();
    let mut script = Script::new(with_table(HeldSettings::default()));
    script.source = source;
    script.begin_streaming();
    script.rows(40, &[good("b"), good("c")]);
    script.catch_up();
    assert_eq!(script.keys(), ["c"]);
    assert_eq!(script.held().events, 2);
    script.begin(56);
    assert_eq!(script.frame(&poison("d")), FrameOutcome::NotTaken, "it halts");
}

/// A row of key b that does not arrive whole, then one of the same key and one of another.
fn cut_row_and_its_key(script: &mut Script) {
    script.begin(24);
    let row = good("b");
    assert_eq!(script.oversized(5_000_000, &row[..row.len() - 3]), FrameOutcome::Taken);
    script.take(&good("b"));
    script.take(&good("c"));
    script.commit(24);
    script.catch_up();
}

#[test]
fn a_row_that_did_not_arrive_whole_is_held_by_its_key() {
    let mut script = streaming(dead_letters());
    cut_row_and_its_key(&mut script);
    assert_eq!(script.keys(), ["c"]);
    assert_eq!(script.states(), [HeldState::Held; 2]);
    script.table().decide(id(24, 0), Decision::Deliver);
    script.catch_up();
    assert_eq!(script.keys(), ["c"], "the rest of the row is not there");
    script.table().decide(id(24, 0), Decision::Drop);
    script.catch_up();
    assert_eq!(script.keys(), ["c", "b"]);
}

/// Nobody knows which later events would be held behind it.
#[test]
fn a_row_whose_key_did_not_arrive_stops_the_router() {
    let row = good("b");
    // The rows end within the key, and within the second column of a key of two.
    let two: Vec<ColumnName> = vec![ColumnName::parse("${aggregate_id}-${headers}").unwrap()];
    for (key, missing) in [(None, 42), (Some(two.clone()), 3), (Some(two), 42)] {
        for hold_keys in [HoldKeys::Yes, HoldKeys::No] {
            let mut settings = with_table(HeldSettings { hold_keys, ..dead_letters() });
            if let Some(names) = &key {
                settings.outboxes.tables[0].columns.set(Role::AggregateId, names.clone());
            }
            let mut script = streaming_with(settings);
            script.begin(24);
            let outcome = script.oversized(5_000_000, &row[..row.len() - missing]);
            if hold_keys == HoldKeys::No {
                assert_eq!(outcome, FrameOutcome::Taken);
                continue;
            }
            assert_eq!(outcome, FrameOutcome::NotTaken, "{key:?}");
            let failure = script.relay.snapshot(script.at).condition.reason.expect("a reason");
            assert_eq!(failure.code, Code::RowTooLarge);
            assert_eq!(failure.case, Some(Case::RowTooLargeForKey));
            assert_eq!(script.held().events, 0);
        }
    }
}

#[test]
fn a_key_of_two_columns_is_held_when_both_arrived() {
    let mut settings = with_table(dead_letters());
    let two = vec![ColumnName::parse("${aggregate_id}-${event_type}").unwrap()];
    settings.outboxes.tables[0].columns.set(Role::AggregateId, two);
    let mut script = streaming_with(settings);
    cut_row_and_its_key(&mut script);
    assert_eq!(script.keys(), ["c-Happened"]);
    assert_eq!(script.held().events, 2);
}

#[test]
fn a_dead_letter_is_shown_in_its_topic_before_the_position_moves() {
    let topic = Some(TopicName::new("letters").unwrap());
    let mut script = streaming(HeldSettings { topic, ..dead_letters() });
    script.rows(24, &[poison("b"), good("b")]);
    script.answer_table();
    script.tick_after(4_000);
    assert_eq!(script.confirmed(), 16, "Kafka has not acknowledged the letter");
    let [letter] = script.sink.produced() else { panic!("one letter") };
    assert_eq!(letter.key, b"b");
    let header = |name: &str| {
        let (_, value) = letter.headers.iter().find(|(known, _)| known == name)?;
        Some(String::from_utf8(value.clone()?).unwrap())
    };
    assert_eq!(header("__outbox_router.errors.code").as_deref(), Some("R009"));
    assert_eq!(header("__outbox_router.errors.event_id").as_deref(), Some("b"));
    assert_eq!(header("__outbox_router.errors.commit_lsn").as_deref(), Some("0/18"));
    script.catch_up();
    assert_eq!(script.confirmed(), 32);
}

#[test]
fn a_router_that_stops_waits_for_the_table() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b")]);
    script.handle(Input::Shutdown);
    script.tick_after(100);
    assert!(!script.actions.contains(&Action::CopyDone));
    script.answer_table();
    assert!(script.actions.contains(&Action::CopyDone));
    script.handle(Input::StreamEnded);
    assert!(script.actions().contains(&Action::Exit(ExitReason::Drained)));
}

#[test]
fn an_event_that_precedes_what_is_held_goes_the_usual_way_when_it_comes_again() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[good("b")]);
    script.rows(40, &[poison("b")]);
    script.hold_and_settle();
    script.reconnect();
    script.sink.forget();
    script.rows(24, &[good("b")]);
    script.catch_up();
    assert_eq!(script.keys(), ["b"]);
    assert_eq!(script.states(), [HeldState::Held]);
}

#[test]
fn the_row_that_was_too_many_is_offered_again_when_another_has_left() {
    let limits = HeldLimits { keys: 1, ..HeldLimits::default() };
    let mut script = streaming(HeldSettings { limits, ..dead_letters() });
    script.rows(24, &[poison("a")]);
    script.catch_up();
    script.begin(40);
    assert_eq!(script.frame(&poison("c")), FrameOutcome::NotTaken);
    script.table().decide(id(24, 0), Decision::Drop);
    for _ in 0..3 {
        script.tick_after(1_100);
        script.answer_table();
    }
    script.take(&poison("c"));
}
