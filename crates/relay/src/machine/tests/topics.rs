//! Topics that are missing, grow, shrink, or refuse a large record.

use super::*;

fn first_topic(script: &Script) -> TopicId {
    script.relay.topics_in_use().next().unwrap().0
}

/// The metadata of a topic in use is read again.
fn partitions(topic: TopicId, count: i32) -> Input<'static> {
    Input::Partitions(topic, NonZeroI32::new(count).unwrap())
}

#[test]
fn a_missing_topic_blocks_and_is_looked_up_until_it_is_there() {
    let mut script = Script::streaming();
    script.begin(100);
    let row = row_of("invoice", "a", "{}");
    assert_eq!(script.frame(&row), FrameOutcome::NotTaken);
    let topic = looked_up(&script.actions())[0];
    for _ in 0..3 {
        script.handle(Input::Topic(topic, Err(failure(Code::TopicMissing))));
        assert_eq!(script.state(), (State::Blocked, Some(Code::TopicMissing)));
        script.run_for(Duration::from_secs(1));
        assert_eq!(looked_up(&script.actions()), [topic]);
    }
    script.handle(Input::Topic(topic, Ok(facts(1))));
    script.take(&row);
    assert_eq!(script.state(), (State::Streaming, None));
    assert_eq!(script.keys(), ["warm-up", "a"]);
}

#[test]
fn a_look_up_that_is_never_answered_is_repeated() {
    let mut script = Script::streaming();
    script.begin(100);
    script.frame(&row_of("invoice", "a", "{}"));
    assert_eq!(looked_up(&script.actions()).len(), 1);
    script.run_for(Duration::from_secs(5));
    assert_eq!(script.state(), (State::Blocked, Some(Code::KafkaUnreachable)));
    let reason = script.relay.condition(script.at).reason.unwrap();
    assert_eq!(
        reason.message,
        "Kafka has not answered the question about topic outbox.event.invoice for 5 s"
    );
    script.run_for(Duration::from_secs(30));
    assert_eq!(looked_up(&script.actions()).len(), 1);
}

#[test]
fn a_topic_that_grows_takes_effect_when_everything_before_is_settled() {
    let mut script = Script::streaming();
    let topic = first_topic(&script);
    script.transaction(100, &["a"]);
    script.handle(partitions(topic, 64));
    assert!(!script.relay.wants_wal(), "drain first");
    script.settle();
    assert!(script.relay.wants_wal());
    let keys: Vec<String> = (0..32).map(|key| key.to_string()).collect();
    for (number, key) in (2_u64..).zip(&keys) {
        script.transaction(number * 100, &[key]);
        script.settle();
        script.tick_after(200);
    }
    let sixty_four = NonZeroI32::new(64).unwrap();
    for record in &script.sink.produced()[2..] {
        assert_eq!(record.partition, crate::partition_for_key(&record.key, sixty_four));
    }
    assert_eq!(script.relay.snapshot(script.at).topics[0].acked, 34, "totals go on");
    assert_eq!(script.relay.topics_in_use().count(), 1);
}

#[test]
fn a_topic_that_grows_inside_a_transaction_does_not_wait_for_its_commit() {
    let mut script = Script::streaming();
    let topic = first_topic(&script);
    script.begin(100);
    script.take(&row("a"));
    script.handle(partitions(topic, 64));
    assert!(!script.relay.wants_wal());
    script.settle();
    script.take(&row("b"));
    script.commit(100);
}

#[test]
fn a_topic_that_shrinks_was_recreated_and_everything_is_replayed() {
    let mut script = Script::streaming();
    let topic = first_topic(&script);
    script.transaction(100, &["a"]);
    script.handle(partitions(topic, 1));
    assert_eq!(script.actions(), [REPLACED_AT_ONCE, Action::Disconnect]);
    assert_eq!(script.state(), (State::Starting, Some(Code::TopicShrunk)));
    assert_eq!(script.relay.topics_in_use().count(), 0, "what was known is void");
}

#[test]
fn a_look_up_of_a_topic_in_use_that_fails_changes_nothing() {
    let mut script = Script::streaming();
    let topic = first_topic(&script);
    script.handle(Input::Topic(topic, Err(failure(Code::KafkaUnreachable))));
    script.transaction(100, &["a"]);
    assert_eq!(script.state(), (State::Streaming, None));
}

fn limited(partitions: i32, max_message_bytes: usize) -> TopicFacts {
    TopicFacts { max_message_bytes: Some(max_message_bytes), ..facts(partitions) }
}

#[test]
fn a_record_larger_than_its_topic_takes_waits_until_the_limit_is_raised() {
    let mut script = Script::streaming();
    let topic = first_topic(&script);
    script.handle(Input::Topic(topic, Ok(limited(3, 1_000))));
    script.begin(200);
    let large = row_of("order", "b", &"x".repeat(2_000));
    assert_eq!(script.frame(&large), FrameOutcome::NotTaken);
    let failed = (State::Failed, Some(Code::RecordTooLarge));
    assert_eq!(script.state(), failed);
    script.actions();
    script.run_for(Duration::from_secs(31));
    assert_eq!(looked_up(&script.actions()), [topic]);
    assert_eq!(script.state(), failed, "looking again repairs nothing");
    script.handle(Input::Topic(topic, Ok(limited(3, 1_000))));
    assert_eq!(script.frame(&large), FrameOutcome::NotTaken);
    assert_eq!(script.state(), failed);
    script.run_for(Duration::from_secs(31));
    script.handle(Input::Topic(topic, Ok(limited(3, 4_000))));
    assert!(script.relay.wants_wal());
    script.take(&large);
    assert_eq!(script.state(), (State::Streaming, None));
}

#[test]
fn looking_up_the_topic_of_a_row_that_waits_keeps_its_partition_count_until_the_window_is_settled()
{
    let mut script = Script::streaming();
    let topic = first_topic(&script);
    script.handle(Input::Topic(topic, Ok(limited(3, 1_000))));
    script.transaction(100, &["a"]);
    script.begin(200);
    let large = row_of("order", "b", &"x".repeat(2_000));
    assert_eq!(script.frame(&large), FrameOutcome::NotTaken);
    script.run_for(Duration::from_secs(31));
    // Limit and partition count grow at once, while a record of the old count is in flight.
    script.handle(Input::Topic(topic, Ok(limited(64, 4_000))));
    assert!(!script.relay.wants_wal());
    script.settle();
    assert!(script.relay.wants_wal());
    script.take(&large);
    let record = script.sink.produced().last().unwrap();
    let sixty_four = NonZeroI32::new(64).unwrap();
    assert_eq!(record.partition, crate::partition_for_key(b"b", sixty_four));
}

/// A session after one that left a record of the old partition count in the producer.
fn with_a_record_left_in_flight() -> (Script, TopicId) {
    let mut script = Script::streaming();
    let topic = first_topic(&script);
    script.transaction(100, &["a"]);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    (script, topic)
}

fn is_in_its_place_among(script: &Script, partitions: i32) -> bool {
    let record = script.sink.produced().last().unwrap();
    let partitions = NonZeroI32::new(partitions).unwrap();
    record.partition == crate::partition_for_key(&record.key, partitions)
}

#[test]
fn a_topic_that_grows_waits_for_what_an_earlier_session_left_in_flight() {
    // I5: the same key's older record could be stored behind a newer one.
    let (mut script, topic) = with_a_record_left_in_flight();
    script.connect();
    script.handle(partitions(topic, 64));
    assert!(!script.relay.wants_wal(), "not before the producer has nothing of the old count");
    script.settle();
    script.transaction(100, &["k7"]);
    assert!(is_in_its_place_among(&script, 64));
}

#[test]
fn a_topic_that_grows_between_two_sessions_waits_too() {
    // I5
    let (mut script, topic) = with_a_record_left_in_flight();
    script.handle(partitions(topic, 64));
    assert!(!is_in_its_place_among(&script, 64), "the key tells the counts apart");
    script.connect();
    script.transaction(100, &["a"]);
    assert!(is_in_its_place_among(&script, 3));
    script.settle();
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.handle(partitions(topic, 64));
    script.connect();
    script.transaction(200, &["a"]);
    assert!(is_in_its_place_among(&script, 64), "nothing is in flight");
}

#[test]
fn a_refresh_of_the_partition_count_makes_no_topic_known() {
    let mut script = Script::streaming();
    script.begin(100);
    let row = row_of("invoice", "a", "{}");
    assert_eq!(script.frame(&row), FrameOutcome::NotTaken);
    let topic = looked_up(&script.actions())[0];
    script.handle(partitions(topic, 3));
    assert!(!script.relay.wants_wal(), "its limit and the right to write to it are not known");
    script.handle(Input::Topic(topic, Err(failure(Code::TopicForbidden))));
    script.handle(partitions(topic, 3));
    assert_eq!(script.state(), (State::Blocked, Some(Code::TopicForbidden)));
    assert_eq!(script.relay.topics_in_use().count(), 1);
}

#[test]
fn a_refresh_of_the_partition_count_keeps_the_limit() {
    let mut script = Script::streaming();
    let topic = first_topic(&script);
    script.handle(Input::Topic(topic, Ok(limited(3, 1_000))));
    for count in [3, 64] {
        script.handle(partitions(topic, count));
    }
    script.begin(100);
    assert_eq!(script.frame(&row_of("order", "a", &"x".repeat(2_000))), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Failed, Some(Code::RecordTooLarge)));
    script.handle(partitions(topic, 64));
    assert!(!script.relay.wants_wal(), "nor does it offer the row again");
    // A look-up returns the limit, if the broker shows it.
    script.handle(Input::Topic(topic, Ok(facts(64))));
    script.take(&row_of("order", "a", &"x".repeat(2_000)));
}

#[test]
fn a_topic_that_is_gone_is_looked_up_before_the_next_record() {
    let mut script = Script::streaming();
    let topic = first_topic(&script);
    script.handle(Input::TopicGone(topic));
    assert_eq!(script.relay.topics_in_use().count(), 0);
    script.begin(100);
    assert_eq!(script.frame(&row("a")), FrameOutcome::NotTaken);
    assert_eq!(looked_up(&script.actions()), [topic]);
    script.handle(Input::Topic(topic, Err(failure(Code::TopicMissing))));
    script.handle(Input::TopicGone(topic));
    assert_eq!(script.state(), (State::Blocked, Some(Code::TopicMissing)), "the reason stays");
}

#[test]
fn a_topic_with_records_in_flight_is_not_taken_for_gone() {
    let mut script = Script::streaming();
    let topic = first_topic(&script);
    script.transaction(100, &["a"]);
    script.handle(Input::TopicGone(topic));
    assert_eq!(script.relay.topics_in_use().count(), 1, "their reports will tell");
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.handle(Input::TopicGone(topic));
    assert_eq!(script.relay.topics_in_use().count(), 1);
    script.settle();
    script.handle(Input::TopicGone(topic));
    assert_eq!(script.relay.topics_in_use().count(), 0);
}

#[test]
fn a_topic_that_is_gone_is_looked_up_although_others_have_records_in_flight() {
    let mut script = Script::streaming();
    let gone = first_topic(&script);
    script.begin(100);
    script.take(&row_of("invoice", "a", "{}"));
    script.commit(100);
    script.handle(Input::TopicGone(gone));
    assert_eq!(script.relay.topics_in_use().count(), 1, "the other is in use");
    script.begin(200);
    assert_eq!(script.frame(&row("b")), FrameOutcome::NotTaken);
    assert_eq!(looked_up(&script.actions()), [gone]);
}

#[test]
fn a_row_whose_partition_the_topic_lacks_waits_until_the_topic_grows() {
    let mut settings = settings();
    settings.outboxes.tables[0].columns.set(crate::Role::Partition, vec!["p".into()]);
    let mut script = Script::new(settings);
    script.handle(Input::SinkReady);
    script.connect();
    let columns: Vec<_> = COLUMNS.into_iter().chain([("p", 23)]).collect();
    script.take(&wire::relation(OUTBOX, "outbox", &columns));
    let row = |partition| {
        let values = ["a", "order", "a", "Happened", "{}", partition].map(Value::Text);
        wire::insert(1, OUTBOX, &values)
    };
    script.begin(200);
    script.take(&row("2"));
    assert_eq!(script.frame(&row("3")), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Failed, Some(Code::PartitionUnusable)));
    script.actions();
    script.run_for(Duration::from_secs(31));
    let topic = looked_up(&script.actions())[0];
    script.settle();
    script.handle(Input::Topic(topic, Ok(facts(4))));
    script.take(&row("3"));
    script.commit(200);
    let partitions: Vec<i32> =
        script.sink.produced().iter().map(|record| record.partition).collect();
    assert_eq!(partitions, [2, 3]);
}
