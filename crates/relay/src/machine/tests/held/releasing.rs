//! How events leave the table.

use super::*;

#[test]
fn a_requeued_key_leaves_in_order_and_is_free_when_the_table_says_so() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("b"), good("b")]);
    script.catch_up();
    assert!(script.keys().is_empty());
    // The row could not become a record because of the configuration; now it can.
    script.table().decide(id(24, 0), Decision::Drop);
    script.tick_after(1_100);
    script.answer_table();
    assert_eq!(script.keys(), ["b", "b"], "what was held behind it leaves by itself");
    script.rows(40, &[good("b")]);
    assert_eq!(script.keys().len(), 2, "the key is not free before Kafka has acknowledged");
    script.settle();
    script.rows(56, &[good("b")]);
    assert_eq!(script.keys().len(), 2, "nor before the table says so");
    script.catch_up();
    assert_eq!(script.keys().len(), 4);
    assert_eq!(script.held(), HeldLimits::NONE);
    script.rows(72, &[good("b")]);
    assert_eq!(script.keys().len(), 5, "free");
    let mut states = vec![HeldState::Dropped];
    states.extend([HeldState::Delivered; 4]);
    assert_eq!(script.states(), states);
    let totals = script.relay.snapshot(script.at).held.totals;
    assert_eq!((totals.delivered, totals.dropped), (4, 1));
}

/// An answer names a thousand keys; the next ones are asked for when these have left.
#[test]
fn decisions_about_thousands_of_keys_are_carried_out_at_once() {
    let limits = HeldLimits { keys: 3_000, ..HeldLimits::default() };
    let mut script = streaming(HeldSettings { limits, ..dead_letters() });
    for at in 0..50 {
        let rows: Vec<_> = (0..50).map(|n| poison(&format!("k{at}-{n}"))).collect();
        script.rows(24 + at * 16, &rows);
        script.answer_table();
        script.tick_after(4_000);
    }
    let undecided: Vec<_> = script.table().undecided().collect();
    assert_eq!(undecided.len(), 2_500);
    for id in undecided {
        script.table().decide(id, Decision::Drop);
    }
    script.tick_after(1_100);
    script.answer_table();
    assert!(script.states().iter().all(|state| *state == HeldState::Dropped));
}

#[test]
fn a_dead_letter_that_fails_again_holds_again() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("b")]);
    script.catch_up();
    script.table().decide(id(24, 0), Decision::Deliver);
    script.catch_up();
    assert!(script.keys().is_empty());
    assert_eq!(script.states(), [HeldState::Held; 2]);
    assert_eq!(script.held().events, 2);
    let letters = script.relay.take_letters();
    assert_eq!(letters.len(), 1, "it is no new dead letter");
    let again = script.relay.take_refused_again();
    let told: Vec<_> = again.iter().map(|letter| (letter.id, letter.code)).collect();
    assert_eq!(told, [(id(24, 0), Code::HeadersMalformed)], "once");
    assert_eq!(again[0].event_id.as_deref(), Some("b"));
    script.table().decide(id(24, 0), Decision::Deliver);
    script.catch_up();
    assert_eq!(script.relay.take_refused_again(), again, "once for each requeue");
    let totals = script.relay.snapshot(script.at).held.totals;
    assert_eq!((totals.refused_again, totals.letters), (2, [(Code::HeadersMalformed, 1)].into()));
}

/// The table has closed the event, and nobody knows. Before it is asked again, a person decides
/// once more, and another event waits to be written.
#[test]
fn a_close_whose_answer_was_lost_undoes_no_decision_and_precedes_other_writes() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b")]);
    script.catch_up();
    script.table().decide(id(24, 0), Decision::Deliver);
    let is_close = |action: &Action| matches!(action, Action::Held(_, HeldRequest::Close { .. }));
    while !script.answer_table_up_to(is_close) {
        script.tick_after(1_100);
    }
    let close = script.actions.pop_front().unwrap();
    script.source.answer(&close);
    script.table().decide(id(24, 0), Decision::Drop);
    assert_eq!(script.states(), [HeldState::Dropping]);
    let lost = Err(failure(Code::ServerUnreachable));
    script.handle(Input::Held(number_of(&close).unwrap(), lost));
    script.rows(40, &[poison("c")]);
    script.take_time(Duration::from_secs(2));
    script.collect();
    let next = script.actions.iter().find(|action| number_of(action).is_some());
    assert!(next.is_some_and(is_close), "{next:?}");
    script.answer_table_up_to(|action| matches!(action, Action::Held(_, HeldRequest::Insert(_))));
    assert_eq!(script.states(), [HeldState::Dropping]);
    script.catch_up();
    assert_eq!(script.states(), [HeldState::Dropped, HeldState::Held]);
}

/// It was an event when it was written, and no person has given it up.
#[test]
fn an_event_that_the_configuration_leaves_out_meanwhile_is_a_dead_letter() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("b")]);
    script.catch_up();
    let filter = crate::RowFilter {
        column: "event_type".into(),
        kind: crate::FilterKind::NotIn,
        values: vec!["Happened".to_owned()],
    };
    let mut settings = with_table(dead_letters());
    settings.outboxes.tables[0].filter = Some(filter);
    let source = script.source.clone();
    script = Script::new(settings);
    script.source = source;
    script.begin_streaming();
    script.table().decide(id(24, 0), Decision::Deliver);
    script.catch_up();
    assert_eq!(script.states(), [HeldState::Held; 2]);
    script.table().decide(id(24, 0), Decision::Drop);
    script.catch_up();
    assert_eq!(script.states(), [HeldState::Dropped, HeldState::Held]);
    assert!(script.table().undecided().eq([id(24, 1)]), "it is one by itself now");
}

#[test]
fn an_event_that_cannot_be_delivered_when_its_turn_comes_is_a_dead_letter_then() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("b"), poison("b"), good("b")]);
    script.catch_up();
    script.table().decide(id(24, 0), Decision::Drop);
    script.catch_up();
    assert_eq!(script.keys(), ["b"], "up to the next dead letter");
    let undecided: Vec<_> = script.table().undecided().collect();
    assert_eq!(undecided, [id(24, 2)]);
    script.table().decide(id(24, 2), Decision::Drop);
    script.catch_up();
    assert_eq!(script.keys(), ["b", "b"]);
    assert_eq!(script.relay.take_letters().len(), 2);
}

#[test]
fn a_release_that_a_crash_interrupts_goes_on_in_the_next_session() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("b"), good("b")]);
    script.catch_up();
    script.table().decide(id(24, 0), Decision::Drop);
    script.tick_after(1_100);
    script.answer_table();
    assert_eq!(script.keys(), ["b", "b"]);
    script.handle(Input::DeliveryFailed {
        transaction: None,
        failure: failure(Code::KafkaUnreachable),
    });
    script.new_sink();
    script.actions.clear();
    script.connect();
    script.describe_with_headers();
    script.rows(40, &[good("b")]);
    assert!(script.keys().is_empty(), "nothing passes what is held");
    script.catch_up();
    assert_eq!(script.keys(), ["b"; 3], "again, in order, and then the new one");
    assert_eq!(script.held(), HeldLimits::NONE);
}

#[test]
fn what_left_the_table_follows_again_when_events_of_its_key_come_again() {
    let mut script = streaming(dead_letters());
    let (first, later) = (good("b"), [poison("b"), good("b")]);
    script.rows(24, std::slice::from_ref(&first));
    script.rows(40, &later);
    script.hold_and_settle();
    script.table().decide(id(40, 0), Decision::Drop);
    script.tick_after(1_100);
    script.hold_and_settle();
    assert_eq!(script.states(), [HeldState::Dropped, HeldState::Delivered]);
    // What was confirmed since is lost in a crash of the server.
    script.source.slot_at = 16;
    script.reconnect();
    script.sink.forget();
    script.rows(24, &[first]);
    script.rows(40, &later);
    script.catch_up();
    assert_eq!(script.keys(), ["b", "b"], "the last record of the key is its last event");
    assert_eq!(script.states(), [HeldState::Dropped, HeldState::Delivered]);
}

#[test]
fn nothing_is_released_before_what_comes_again_has_come() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[good("b")]);
    script.rows(40, &[poison("b"), good("b")]);
    script.hold_and_settle();
    script.table().decide(id(40, 0), Decision::Drop);
    script.reconnect();
    script.sink.forget();
    script.tick_after(1_100);
    script.hold_and_settle();
    assert!(script.keys().is_empty(), "event 24:0 precedes what is released");
    script.rows(24, &[good("b")]);
    script.hold_and_settle();
    assert_eq!(script.keys(), ["b"]);
    script.rows(40, &[poison("b"), good("b")]);
    script.catch_up();
    assert_eq!(script.keys(), ["b", "b"]);
    assert_eq!(script.states(), [HeldState::Dropped, HeldState::Delivered]);
}

#[test]
fn a_requeued_event_is_compared_with_the_limit_that_its_topic_has_then() {
    let mut script = streaming(dead_letters());
    let limited = TopicFacts { max_message_bytes: Some(100), ..facts(3) };
    script.begin(24);
    let row = row_with_type("b", "large");
    assert_eq!(script.frame(&row), FrameOutcome::NotTaken);
    let Some(Action::LookUpTopic(topic, _)) = script.actions.pop_back() else {
        panic!("the topic is looked up")
    };
    script.handle(Input::Topic(topic, Ok(limited)));
    script.take(&row);
    script.commit(24);
    script.catch_up();
    assert_eq!(script.states(), [HeldState::Held]);
    script.table().decide(id(24, 0), Decision::Deliver);
    // The topic is looked up, and has no limit any more.
    script.catch_up();
    assert_eq!(script.states(), [HeldState::Delivered]);
}

fn row_with_type(key: &str, aggregate_type: &str) -> Vec<u8> {
    let payload = format!("{:200}", "{}");
    let values = [key, aggregate_type, key, "Happened", &payload, "{}"].map(Value::Text);
    wire::insert(1, OUTBOX, &values)
}

#[test]
fn a_batch_ends_under_the_partition_count_under_which_it_began() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("b")]);
    script.catch_up();
    script.table().decide(id(24, 0), Decision::Drop);
    script.tick_after(1_100);
    script.answer_table();
    assert_eq!(script.keys(), ["b"], "it is in flight");
    let topic = script.relay.topics_in_use().next().map(|(id, _)| id).unwrap();
    script.handle(Input::Partitions(topic, NonZeroI32::new(9).unwrap()));
    assert!(!script.relay.wants_wal(), "nothing more is produced");
    script.settle();
    assert!(!script.relay.wants_wal(), "if the batch were repeated, it would be repeated whole");
    script.catch_up();
    assert!(script.relay.wants_wal());
}
