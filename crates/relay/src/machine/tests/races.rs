//! Two routers at one slot, and facts that have changed before they are acted upon. The simulation
//! found each of these races.

use super::{world::World, *};
use crate::{protocol::StateTopicRecord, source::SlotReading, witness::Witness};

/// A record of another router: everything before `position` is acknowledged.
fn another_records(world: &mut World, position: u64) {
    let value = Witness { position: Lsn::from_u64(position), ..world.witness() }.encode();
    world.topic.push(StateTopicRecord { key: b"another".to_vec(), value, offset: 50 });
}

/// Answers until this is asked.
fn answer_until(world: &mut World, action: &Action) {
    while world.script.actions.front() != Some(action) {
        assert!(world.answer(), "{action:?} is not asked");
    }
}

/// Answers until the state topic is asked for.
fn answer_until_state(world: &mut World) {
    while !matches!(world.script.actions.front(), Some(Action::ReadStateTopic(_))) {
        assert!(world.answer(), "the state topic is not asked for");
    }
}

#[test]
fn a_position_confirmed_by_another_router_is_not_taken_for_a_moved_slot() {
    let mut world = World::streaming();
    world.restart();
    world.script.run_for(Duration::from_secs(1));
    answer_until(&mut world, &Action::Connect);
    // The holder writes its witness, confirms the position, and exits.
    another_records(&mut world, 300);
    world.script.source.slot_at = 300;
    answer_until_state(&mut world);
    world.answer();
    assert_eq!(world.script.state(), (State::Starting, Some(Code::SlotInUse)));
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
    assert!(world.witness().gaps.is_empty());
}

#[test]
fn a_slot_that_is_gone_at_the_start_of_the_stream_is_no_gap_before_it_is_read_again() {
    for code in [Code::SlotMissing, Code::SlotLost] {
        let mut world = World::streaming();
        world.restart();
        world.script.run_for(Duration::from_secs(1));
        answer_until(&mut world, &Action::StartReplication(BacklogFrom::Stream));
        // The connection of the stream has reached a standby.
        world.script.actions.clear();
        world.script.handle(Input::Disconnected(failure(code)));
        assert_eq!(world.script.state(), (State::Starting, Some(Code::ServerUnreachable)));
        let snapshot = world.script.relay.snapshot(world.script.at);
        let why = snapshot.condition.reason.unwrap();
        assert_eq!(why.message, "the slot that was there a moment ago: it failed");
        world.settle_down();
        assert_eq!(world.script.state(), (State::Streaming, None));
        assert!(world.witness().gaps.is_empty());
    }
}

#[test]
fn no_session_begins_on_a_stream_that_was_left_unanswered_for_long() {
    let mut world = World::streaming();
    world.restart();
    world.script.run_for(Duration::from_secs(1));
    answer_until(&mut world, &Action::StartReplication(BacklogFrom::Stream));
    answer_until_state(&mut world);
    world.script.run_for(Duration::from_secs(6));
    world.answer();
    world.answer();
    assert_eq!(world.script.state(), (State::Starting, Some(Code::ServerSilent)));
    assert!(world.script.actions.contains(&Action::Disconnect));
    // Nor by a process that was stopped meanwhile, whichever input comes first.
    world.settle_down();
    world.restart();
    world.script.run_for(Duration::from_secs(1));
    answer_until(&mut world, &Action::StartReplication(BacklogFrom::Stream));
    answer_until_state(&mut world);
    world.script.handle(Input::ProcessStalled(Duration::from_secs(6)));
    assert_eq!(world.script.state(), (State::Starting, Some(Code::ServerSilent)));
}

#[test]
fn a_position_that_another_session_wrote_is_confirmed_when_this_one_has_written_it() {
    let mut world = World::streaming();
    world.restart();
    world.script.source.slot_at = 0;
    world.connect();
    world.script.transaction(8, &["warm-up"]);
    world.script.take(&wire::keepalive(400));
    // The earlier session's record may be deleted now.
    world.script.run_for(Duration::from_secs(4));
    assert_eq!(world.script.source.slot_at, 0);
    world.settle_down();
    assert_eq!(world.script.source.slot_at, 400);
}

#[test]
fn a_position_that_cannot_be_verified_is_not_written() {
    // A server restored from a snapshot, and no transaction with events since the pipeline began.
    let mut world = World::streaming();
    let mut witness = world.witness();
    (witness.position, witness.last) = (Lsn::from_u64(300), None);
    world.topic[0].value = witness.encode();
    world.restart();
    world.script.source.slot_at = 16;
    world.connect();
    world.answer_all();
    let written = Witness::decode(world.in_flight[0].value.as_ref().unwrap()).unwrap();
    assert_eq!(written.position.as_u64(), 16);
    world.transaction(100, &["a"]);
    assert_eq!(world.script.keys(), ["a"], "it is produced");
}

#[test]
fn a_stopping_server_does_not_wait_for_a_witness_that_is_not_acknowledged() {
    let mut world = World::streaming();
    world.script.transaction(100, &["a"]);
    world.script.settle();
    world.script.handle(Input::ServerStopping);
    world.script.run_for(Duration::from_secs(3));
    let actions = world.script.actions();
    assert!(actions.contains(&Action::Disconnect), "{actions:?}");
}

#[test]
fn a_partition_count_that_this_process_has_used_since_is_kept() {
    let mut world = World::streaming();
    let id = world.script.relay.topics_in_use().next().unwrap().0;
    world.script.handle(Input::Partitions(id, NonZeroI32::new(6).unwrap()));
    world.script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    world.connect();
    world.script.handle(Input::Partitions(id, NonZeroI32::new(6).unwrap()));
    assert_eq!(world.script.state(), (State::Streaming, None));
    world.settle_down();
    assert_eq!(world.script.relay.topics.facts(id).unwrap().partitions.get(), 6);
}

#[test]
fn without_a_state_topic_whatever_comes_again_is_produced_again() {
    // Two transactions are settled, and neither is confirmed. Another router may have produced one
    // of them again meanwhile. Then the other has to follow it, else the last record of a key in
    // Kafka would not be its last event.
    let window = Window { events: 1_000, bytes: 1 << 20 };
    let mut script = Script::streaming_with(RelaySettings { window, ..settings() });
    script.handle(Input::BytesArrived);
    script.run_for(Duration::from_secs(3));
    script.transaction(100, &["a"]);
    script.transaction(200, &["b"]);
    script.settle();
    assert_eq!(script.source.slot_at, 16);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.connect();
    script.transaction(100, &["a"]);
    script.transaction(200, &["b"]);
    script.transaction(300, &["c"]);
    assert_eq!(script.state(), (State::Streaming, None));
    assert_eq!(script.keys(), ["warm-up", "a", "b", "a", "b", "c"]);
}

#[test]
fn a_gap_suspected_before_the_witness_is_read_does_not_hide_what_the_witness_shows() {
    let mut world = World::streaming();
    world.restart();
    world.script.handle(Input::GapSuspected(gap(Code::SlotLost)));
    world.script.source.slot_at = 500;
    world.settle_down();
    assert_eq!((world.gap().0, world.gap().1), (Some(Code::SlotMoved), 16));
    assert_eq!(world.witness().position.as_u64(), 16);
}

/// Somebody ends the stream and drops the slot: the monitor and the next attempt to connect both
/// find that it is gone, and the monitor has not heard yet of what was acknowledged last.
#[test]
fn a_slot_that_is_gone_for_monitor_and_session_alike_is_one_gap() {
    let mut world = World::streaming();
    world.script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    let mark = |lsn| Mark { lsn: Lsn::from_u64(lsn), at: None };
    let interval = Interval { from: Some(mark(8)), to: mark(u64::MAX) };
    let what = format!("slot \"{}\" does not exist", settings().slot);
    let seen = Gap::new(Failure::new(Code::SlotMissing, what), interval);
    world.script.handle(Input::GapSuspected(seen));
    world.script.run_for(Duration::from_secs(6));
    answer_until(&mut world, &Action::ReadSlot);
    world.script.actions.clear();
    let reading = SlotReading { slot: None, ..world.script.source.slot_reading() };
    world.script.handle(Input::Slot(reading));
    world.settle_down();
    assert_eq!((world.gap().0, world.gap().1), (Some(Code::SlotMissing), 8));
    let names: Vec<String> = world.witness().gaps.iter().map(Gap::name).collect();
    assert_eq!(names, ["P010@0/8"]);
}

#[test]
fn another_cluster_between_the_two_reads_is_noticed() {
    let mut world = World::streaming();
    world.restart();
    world.script.run_for(Duration::from_secs(1));
    answer_until(&mut world, &Action::StartReplication(BacklogFrom::Stream));
    world.cluster = "another".into();
    world.settle_down();
    assert_eq!(world.gap().0, Some(Code::ClusterChanged));
}

#[test]
fn a_process_that_stops_with_a_gap_in_flight_does_not_spin() {
    let mut world = World::streaming();
    world.script.transaction(100, &["a"]);
    world.script.settle();
    world.script.run_for(Duration::from_secs(1));
    world.script.handle(Input::Shutdown);
    world.script.handle(Input::GapSuspected(gap(Code::PublicationMissing)));
    // The script asserts that no deadline lies in the past.
    world.script.run_for(Duration::from_secs(60));
    assert!(world.script.actions().contains(&Action::Exit(ExitReason::EventsUnconfirmed)));
}

#[test]
fn a_session_that_resumes_at_the_end_of_the_wal_pins_no_partition_count() {
    let mut world = World::streaming();
    world.restart();
    world.script.source.wal_end = 16;
    world.server.wal_end = Lsn::from_u64(16);
    world.connect();
    world.script.begin(100);
    assert_eq!(world.script.frame(&row("a")), FrameOutcome::NotTaken);
    let id = looked_up(&world.script.actions())[0];
    world.script.handle(Input::Topic(id, Ok(facts(6))));
    assert_eq!(world.script.relay.topics.facts(id), None, "the witness says three");
    world.settle_down();
    assert_eq!(world.script.relay.topics.facts(id).unwrap().partitions.get(), 6);
}

#[test]
fn a_gap_whose_record_is_gone_is_recorded_again() {
    let mut world = World::streaming();
    world.script.handle(Input::GapSuspected(gap(Code::PublicationReplaced)));
    world.settle_down();
    assert_eq!(world.witness().gaps.len(), 1);
    world.topic.clear();
    world.settle_down();
    world.settle_down();
    assert_eq!(world.witness().gaps.len(), 1);
    world.accept();
    world.settle_down();
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
}

#[test]
fn a_producer_that_fails_while_connecting_starts_the_attempt_over() {
    let mut world = World::streaming();
    world.restart();
    world.script.run_for(Duration::from_secs(1));
    answer_until(&mut world, &Action::StartReplication(BacklogFrom::Stream));
    answer_until_state(&mut world);
    let failed = failure(Code::ProducerFatal);
    world.script.handle(Input::DeliveryFailed { transaction: None, failure: failed });
    // The earlier read was of another cluster.
    world.cluster = "another".into();
    world.script.new_sink();
    world.settle_down();
    assert_eq!(world.gap().0, Some(Code::ClusterChanged));
}
