//! A record that Kafka refuses each time: the state reports it, and nothing but its transaction is
//! repeated.

use super::*;

const BLOCKED: (State, Option<Code>) = (State::Blocked, Some(Code::TopicForbidden));

fn key_in(partition: i32) -> String {
    let is_there = |key: &String| {
        crate::partition_for_key(key.as_bytes(), NonZeroI32::new(3).unwrap()) == partition
    };
    (0..).map(|key: u32| key.to_string()).find(is_there).unwrap()
}

fn wide() -> Script {
    let window = Window { events: 1_000, bytes: 1 << 20 };
    Script::streaming_with(RelaySettings { window, ..settings() })
}

/// The next record of partition 1 is refused.
fn refuse(script: &mut Script) {
    let lane = *script.sink.waiting().iter().find(|lane| lane.1 == 1).unwrap();
    let transaction = script.sink.fail(lane);
    script.handle(Input::DeliveryFailed { transaction, failure: failure(Code::TopicForbidden) });
}

/// The transactions at 100, 200 and 300 were produced, and a record of that at 200 was refused.
fn refused() -> Script {
    let mut script = wide();
    script.transaction(100, &[&key_in(0)]);
    script.transaction(200, &[&key_in(1)]);
    script.transaction(300, &[&key_in(2)]);
    refuse(&mut script);
    script
}

fn reconnect(script: &mut Script) {
    script.new_sink();
    script.connect();
}

#[test]
fn a_refused_record_is_retried_alone_until_it_is_acknowledged() {
    let mut script = refused();
    assert_eq!(script.state(), BLOCKED);
    reconnect(&mut script);
    assert_eq!(script.state(), BLOCKED, "connecting is no way past it");
    script.transaction(100, &[&key_in(0)]);
    assert_eq!(script.frame(&wire::begin(200, 0)), FrameOutcome::NotTaken);
    script.run_for(Duration::from_secs(2));
    assert!(!script.relay.wants_wal(), "what precedes it is not acknowledged");
    script.settle();
    script.run_for(Duration::from_millis(100));
    assert_eq!(script.confirmed(), 108);
    script.transaction(200, &[&key_in(1)]);
    assert_eq!(script.frame(&wire::begin(300, 0)), FrameOutcome::NotTaken, "it is alone");
    refuse(&mut script);
    assert_eq!(script.keys(), [key_in(0), key_in(1)]);

    // The cause is repaired.
    reconnect(&mut script);
    script.transaction(200, &[&key_in(1)]);
    assert_eq!(script.frame(&wire::begin(300, 0)), FrameOutcome::NotTaken);
    script.settle();
    script.run_for(Duration::from_millis(100));
    assert_eq!(script.confirmed(), 208);
    assert_eq!(script.state(), (State::Streaming, None));
    script.transaction(300, &[&key_in(2)]);
    script.transaction(400, &[&key_in(1)]);
    script.transaction(500, &[&key_in(1)]);
    assert_eq!(script.sink.in_flight(), 3, "care is over");
}

#[test]
fn the_refusal_is_not_forgotten_while_the_server_is_unreachable() {
    let mut script = refused();
    script.new_sink();
    script.run_for(Duration::from_secs(5));
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(script.state(), (State::Starting, Some(Code::ServerUnreachable)));
    script.actions();
    script.connect();
    assert_eq!(script.state(), BLOCKED);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.connect();
    script.transaction(100, &[&key_in(0)]);
    assert_eq!(script.frame(&wire::begin(200, 0)), FrameOutcome::NotTaken, "nor is the care");
}

#[test]
fn a_transaction_that_another_router_has_confirmed_is_no_longer_isolated() {
    let mut script = refused();
    script.new_sink();
    script.source.slot_at = 308;
    script.connect();
    assert_eq!(script.state(), (State::Streaming, None));
    script.transaction(400, &["a"]);
    script.transaction(500, &["b"]);
}

#[test]
fn stopping_does_not_wait_for_the_isolated_transaction() {
    let mut script = refused();
    reconnect(&mut script);
    script.transaction(100, &[&key_in(0)]);
    assert_eq!(script.frame(&wire::begin(200, 0)), FrameOutcome::NotTaken);
    script.handle(Input::Shutdown);
    assert!(!script.actions().contains(&Action::CopyDone));
    script.settle();
    script.run_for(Duration::from_millis(200));
    let actions = script.actions();
    assert_eq!(statuses(&actions).last().unwrap().flush.lsn().as_u64(), 108);
    assert_eq!(actions.last(), Some(&Action::CopyDone));
}
