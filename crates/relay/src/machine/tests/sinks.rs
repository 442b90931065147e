//! Producers that fail in a row: each next one is made after a longer wait, and the state reports
//! the reason all the time.

use super::{world::World, *};

const BLOCKED: (State, Option<Code>) = (State::Blocked, Some(Code::ClusterForbidden));
const STREAMING: (State, Option<Code>) = (State::Streaming, None);

/// The producer fails altogether. Returns the wait before the next one, if the core asks for one.
fn fail_producer(script: &mut Script, code: Code) -> Option<Duration> {
    script.handle(Input::DeliveryFailed { transaction: None, failure: failure(code) });
    wait(&script.actions())
}

fn wait(actions: &[Action]) -> Option<Duration> {
    actions.iter().find_map(|action| {
        if let Action::ReplaceSink { wait } = action { Some(*wait) } else { None }
    })
}

fn fail_as_forbidden(script: &mut Script) -> Duration {
    fail_producer(script, Code::ClusterForbidden).expect("another producer")
}

/// The wait passes, and there is another producer.
fn replace_after(script: &mut Script, wait: Duration) {
    script.run_for(wait);
    script.new_sink();
}

/// Connects as soon as an attempt is due.
fn reconnect(script: &mut Script) {
    while !script.actions().contains(&Action::Connect) {
        let due = script.relay.deadline().expect("an attempt");
        script.run_for(due.since(script.at));
    }
    script.answer();
    script.actions();
}

/// Streaming, with a third producer: two before it were refused, one right after the other.
fn forbidden_twice() -> Script {
    let mut script = Script::streaming();
    for _ in 0..2 {
        let wait = fail_as_forbidden(&mut script);
        replace_after(&mut script, wait);
        reconnect(&mut script);
    }
    script
}

#[test]
fn a_producer_that_fails_at_once_is_replaced_after_growing_waits() {
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    let mut waits = Vec::new();
    for _ in 0..12 {
        let wait = fail_as_forbidden(&mut script);
        replace_after(&mut script, wait);
        waits.push(wait);
    }
    let millis = Duration::from_millis;
    assert_eq!(waits[0], Duration::ZERO, "the first is replaced at once");
    assert!(waits[1] >= millis(50) && waits[1] <= millis(100), "{waits:?}");
    assert!(waits[3] >= millis(200) && waits[3] <= millis(400), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= millis(5_000)), "{waits:?}");
    assert!(waits[11] >= millis(2_500), "{waits:?}");
    let snapshot = script.relay.snapshot(script.at);
    assert_eq!(snapshot.reconnects.kafka, 12);
    assert_eq!(snapshot.errors.get(&Code::ClusterForbidden), Some(&12), "each is counted");
}

/// Whatever the session was about to do when its producer failed.
#[test]
fn from_the_second_failure_on_the_state_reports_the_reason_and_nothing_else() {
    let mut script = Script::streaming();
    let wait = fail_as_forbidden(&mut script);
    assert_eq!(script.state().0, State::Starting, "one that fails once is nothing to be told");
    replace_after(&mut script, wait);
    reconnect(&mut script);
    assert_eq!(script.state(), STREAMING);
    for _ in 0..5 {
        let wait = fail_as_forbidden(&mut script);
        assert_eq!(script.state(), BLOCKED, "waiting");
        replace_after(&mut script, wait);
        assert_eq!(script.state(), BLOCKED, "there is another");
        reconnect(&mut script);
        assert_eq!(script.state(), BLOCKED, "a session says nothing about Kafka");
    }
    fail_as_forbidden(&mut script);
    script.new_sink();
    while !script.actions().contains(&Action::Connect) {
        script.run_for(Duration::from_millis(10));
    }
    assert_eq!(script.state(), BLOCKED, "connecting");
    fail_as_forbidden(&mut script);
    assert_eq!(script.state(), BLOCKED, "failed while connecting");
}

#[test]
fn an_acknowledged_record_ends_the_series_of_failures() {
    let mut script = forbidden_twice();
    script.frame(&wire::relation(OUTBOX, "outbox", &COLUMNS));
    script.transaction(100, &["a"]);
    assert_eq!(script.state(), BLOCKED, "a record on its way is no proof");
    script.settle();
    assert_eq!(script.state(), STREAMING);
    assert_eq!(fail_as_forbidden(&mut script), Duration::ZERO);
}

#[test]
fn an_acknowledged_write_of_the_witness_ends_the_series_of_failures() {
    let mut world = World::streaming();
    for failures in 1..=2 {
        let wait = fail_as_forbidden(&mut world.script);
        world.in_flight.clear();
        replace_after(&mut world.script, wait);
        assert_eq!(world.script.state().0 == State::Blocked, failures == 2);
    }
    world.connect();
    assert_eq!(world.script.state(), BLOCKED);
    assert!(world.store());
    assert_eq!(world.script.state(), STREAMING);
    assert_eq!(fail_as_forbidden(&mut world.script), Duration::ZERO);
}

#[test]
fn a_producer_that_lasts_ends_the_series_of_failures() {
    let mut script = forbidden_twice();
    script.take_time(Duration::from_secs(9));
    assert_eq!(script.state(), BLOCKED);
    script.take_time(Duration::from_secs(2));
    assert_eq!(script.state(), STREAMING);
    assert_eq!(fail_as_forbidden(&mut script), Duration::ZERO);
    assert_eq!(script.state().0, State::Starting);
}

#[test]
fn a_producer_failure_that_needs_a_person_is_reported_as_such() {
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    for _ in 0..2 {
        let wait = fail_producer(&mut script, Code::KafkaAuthentication).unwrap();
        replace_after(&mut script, wait);
    }
    assert_eq!(script.state(), (State::Failed, Some(Code::KafkaAuthentication)));

    let mut script = Script::new(RelaySettings { on_failed: OnFailed::Exit, ..settings() });
    script.handle(Input::SinkReady);
    let wait = fail_producer(&mut script, Code::KafkaAuthentication).unwrap();
    replace_after(&mut script, wait);
    script.handle(Input::DeliveryFailed {
        transaction: None,
        failure: failure(Code::KafkaAuthentication),
    });
    assert_eq!(script.actions().last(), Some(&Action::Exit(ExitReason::Failed)));
}

#[test]
fn a_standby_reports_that_its_producer_is_refused() {
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.handle(Input::SlotHeld(Some(4711)));
    for _ in 0..2 {
        let wait = fail_as_forbidden(&mut script);
        replace_after(&mut script, wait);
    }
    assert_eq!(script.state(), (State::Standby, Some(Code::ClusterForbidden)));
    script.handle(Input::SlotFree);
    assert_eq!(script.state(), BLOCKED);
}

#[test]
fn nothing_is_reported_instead_of_a_gap() {
    let mut script = forbidden_twice();
    script.handle(Input::GapSuspected(gap(Code::SlotMoved)));
    let wait = fail_as_forbidden(&mut script);
    assert!(wait > Duration::ZERO);
    assert_eq!(script.state(), (State::Failed, Some(Code::SlotMoved)));
}

/// The producer itself has not failed.
#[test]
fn a_producer_that_the_router_discards_has_not_failed() {
    let mut script = Script::streaming();
    for _ in 0..3 {
        script.handle(Input::ProcessStalled(Duration::from_secs(20)));
        assert_eq!(wait(&script.actions()), Some(Duration::ZERO));
        script.new_sink();
        reconnect(&mut script);
        assert_eq!(script.state(), STREAMING);
    }
    let mut script = forbidden_twice();
    script.handle(Input::ProcessStalled(Duration::from_secs(20)));
    assert_eq!(wait(&script.actions()), Some(Duration::ZERO));
    script.new_sink();
    assert!(fail_as_forbidden(&mut script) > Duration::ZERO, "nor does that end the row");
}

#[test]
fn a_process_that_waits_for_a_producer_exits_at_once() {
    let mut script = forbidden_twice();
    assert!(fail_as_forbidden(&mut script) > Duration::ZERO);
    script.handle(Input::Shutdown);
    assert_eq!(script.actions(), [Action::Exit(ExitReason::Drained)]);
}
