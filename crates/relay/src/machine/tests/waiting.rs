//! What a waiting router reports: whom it waits for, and for what.

use super::{world::World, *};

fn reason(script: &Script) -> Failure {
    assert_eq!(script.state(), (State::Blocked, Some(Code::KafkaUnreachable)));
    script.relay.condition(script.at).reason.unwrap()
}

fn assert_is_about_the_state_topic(failure: &Failure, seconds: u64) {
    let expected = format!(
        "the write to the state topic t has waited {seconds} s for Kafka's acknowledgement, and \
         before it no position is confirmed"
    );
    assert_eq!(failure.message, expected);
    assert_eq!(failure.case, Some(Case::StateTopicSilent));
    assert_eq!(failure.names.get(Name::Topic), Some("t"));
    assert_eq!(failure.lsn, None);
}

/// Every event is acknowledged, so the wait is not for an event.
#[test]
fn an_unacknowledged_write_to_the_state_topic_is_reported_as_what_blocks() {
    let mut world = World::streaming();
    world.transaction(100, &["a"]);
    world.script.settle();
    world.script.run_for(Duration::from_secs(1));
    world.answer_all();
    assert_eq!(world.in_flight.len(), 1);
    world.script.take_time(Duration::from_secs(5));
    assert_is_about_the_state_topic(&reason(&world.script), 5);
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
}

/// The topic was found; its record waits until the witness names its partition count.
#[test]
fn a_topic_that_waits_for_the_witness_is_not_reported_as_what_blocks() {
    let mut world = World::new();
    world.settle_down();
    world.describe();
    world.script.begin(8);
    assert_eq!(world.script.frame(&row("a")), FrameOutcome::NotTaken);
    world.answer_all();
    assert_eq!(world.in_flight.len(), 1, "the partitions of its topic");
    world.script.take_time(Duration::from_secs(5));
    assert_is_about_the_state_topic(&reason(&world.script), 5);
}

/// It is not known here whether the event or the write has waited longer, only that neither is
/// acknowledged.
#[test]
fn an_event_that_waits_beside_the_write_is_named_with_it() {
    let mut world = World::streaming();
    world.transaction(100, &["a"]);
    world.script.settle();
    world.script.run_for(Duration::from_secs(1));
    world.answer_all();
    assert_eq!(world.in_flight.len(), 1);
    world.transaction(200, &["b"]);
    world.script.take_time(Duration::from_secs(5));
    let failure = reason(&world.script);
    let expected = "the oldest event and the write to the state topic t have waited up to 5 s for \
                    Kafka's acknowledgement";
    assert_eq!(failure.message, expected);
    assert_eq!(failure.case, Some(Case::ReplicasSilent));
    world.store();
    world.script.take_time(Duration::from_secs(5));
    let message = reason(&world.script).message;
    assert!(message.starts_with("the oldest event has waited "), "{message}");
}

/// No acknowledgement is owed then.
#[test]
fn a_producer_without_room_is_reported_to_take_no_record() {
    let mut script = Script::streaming();
    script.sink = MemorySink::new(0);
    script.begin(100);
    for _ in 0..80 {
        assert_eq!(script.frame(&row("a")), FrameOutcome::NotTaken);
        script.tick_after(49);
    }
    assert_eq!(reason(&script).message, "no producer has taken a record for 3 s");
}

/// The write is tried again every 30 s, and each time its failure is reported.
#[test]
fn a_write_that_is_too_large_for_the_state_topic_waits_for_a_person() {
    let mut world = World::streaming();
    world.transaction(100, &["a"]);
    world.script.settle();
    for _ in 0..3 {
        world.script.tick_after(1_000);
        world.answer_all();
        assert_eq!(world.in_flight.len(), 1);
        world.in_flight.clear();
        let failure = failure(Code::RecordTooLarge);
        world.script.handle(Input::DeliveryFailed { transaction: None, failure });
        assert_eq!(world.script.state(), (State::Failed, Some(Code::RecordTooLarge)));
        world.script.new_sink();
        world.script.run_for(Duration::from_secs(29));
        assert_eq!(world.script.state(), (State::Failed, Some(Code::RecordTooLarge)));
        world.script.run_for(Duration::from_secs(2));
        world.answer_all();
        world.describe();
        world.script.transaction(100, &["a"]);
        world.script.frame(&wire::keepalive(300));
    }
    assert!(world.script.sink.produced().is_empty(), "it was acknowledged");
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
    assert!(world.script.confirmed() >= 108);
}
