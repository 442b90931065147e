//! What a router notices of other routers while it streams, and what a router without the slot
//! leaves to its holder.

use super::{world::World, *};
use crate::{
    source::{Gap, Interval, Mark},
    witness::Acceptance,
};

#[test]
fn a_gap_recorded_by_another_router_stops_the_one_that_streams() {
    let mut world = World::streaming();
    let found = world.witness().with_gaps(&[gap(Code::SlotLost)]);
    world.another_writes(&found);
    world.settle_down();
    world.settle_down();
    assert_eq!(world.gap().0, Some(Code::SlotLost));
    assert_eq!(world.witness().gaps.len(), 1, "it is in the witness already");
    world.accept();
    world.settle_down();
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
}

/// A promotion has begun the generation in which another router found that transactions are
/// missing.
#[test]
fn a_gap_recorded_in_the_same_generation_counts_too() {
    let mut world = World::streaming();
    let mut found = world.witness();
    found.gaps.push(gap(Code::HistoryChanged));
    world.another_writes(&found);
    world.settle_down();
    world.settle_down();
    assert_eq!(world.gap().0, Some(Code::HistoryChanged));
}

#[test]
fn an_acceptance_of_the_start_without_a_witness_is_noticed_without_a_restart() {
    let mut world = World::streaming();
    let began = |world: &World| world.script.relay.snapshot(world.script.at).witness.began_without;
    assert_eq!(began(&world), Some(Mark { lsn: Lsn::ZERO, at: Some(String::new()) }));
    let accepted = {
        let witness = world.witness();
        witness.accept_notes(&witness.open_findings(), "ann", "2026-11-22T00:00:00Z")
    };
    world.another_writes(&accepted);
    world.settle_down();
    world.settle_down();
    assert_eq!(began(&world), None);
    assert_eq!(world.script.state(), (State::Streaming, None), "nothing had to be judged again");
    world.topic.retain(|record| record.key != b"another");
    let by = |acceptance: &Acceptance| acceptance.by.clone();
    assert_eq!(world.witness().accepted.iter().map(by).collect::<Vec<_>>(), ["ann"]);
}

#[test]
fn a_generation_that_another_process_has_begun_is_checked_by_a_new_session() {
    let mut world = World::streaming();
    let mut another = world.witness();
    another.generation += 1;
    world.another_writes(&another);
    world.settle_down();
    world.settle_down();
    let errors = world.script.relay.snapshot(world.script.at).errors;
    assert_eq!(errors.get(&Code::SlotInUse), Some(&1));
    assert_eq!(world.script.state(), (State::Streaming, None));
    assert_eq!(world.witness().generation, 2);
}

#[test]
fn a_deleted_witness_is_written_again() {
    let mut world = World::streaming();
    world.topic.clear();
    world.settle_down();
    world.settle_down();
    assert_eq!(world.witness().position, Lsn::from_u64(16));
}

#[test]
fn a_slot_recreated_between_the_preflight_and_the_start_is_checked_again() {
    let mut world = World::streaming();
    world.restart();
    world.script.run_for(Duration::from_secs(1));
    while world.script.actions.front() != Some(&Action::StartReplication(BacklogFrom::Stream)) {
        assert!(world.answer());
    }
    world.script.source.slot_at = 700;
    world.settle_down();
    let (code, from, _) = world.gap();
    assert_eq!((code, from), (Some(Code::SlotMoved), 16));
}

#[test]
fn a_record_waits_until_the_witness_holds_its_topics_partition_count() {
    let mut world = World::new();
    world.settle_down();
    world.describe();
    world.script.begin(8);
    assert_eq!(world.script.frame(&row("a")), FrameOutcome::NotTaken);
    world.answer_all();
    assert_eq!(world.in_flight.len(), 1, "the partitions of its topic");
    world.script.handle(Input::BytesArrived);
    world.script.run_for(Duration::from_secs(2));
    assert!(!world.script.relay.wants_wal());
    assert!(world.script.sink.produced().is_empty());
    world.store();
    assert!(world.script.relay.wants_wal());
    assert_eq!(world.witness().partitions.get("outbox.event.order"), Some(&3));
}

/// This router's witness may be old: a gap that it writes would hide what the holder writes.
#[test]
fn a_standby_records_no_gap_that_its_monitor_suspects() {
    let mut world = World::streaming();
    world.restart();
    world.script.run_for(Duration::from_secs(1));
    while world.script.actions.front() != Some(&Action::StartReplication(BacklogFrom::Stream)) {
        assert!(world.answer());
    }
    world.script.handle(Input::SlotHeld(Some(7)));
    world.script.handle(Input::GapSuspected(gap(Code::PublicationReplaced)));
    assert_eq!(world.script.state(), (State::Standby, None));
    world.script.actions.clear();
    world.script.run_for(Duration::from_secs(20));
    assert!(world.in_flight.is_empty());
}

/// Only a new process does not know what the witness does not say yet.
#[test]
fn what_a_session_has_delivered_is_not_produced_again_by_the_next_one_of_this_process() {
    let mut world = World::streaming();
    world.script.transaction(100, &["a"]);
    world.script.settle();
    world.script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(world.witness().position, Lsn::from_u64(16), "nobody else can know");
    world.connect();
    let sent = world.script.sink.produced().len();
    world.script.transaction(100, &["a"]);
    assert_eq!(world.script.sink.produced().len(), sent);
    world.transaction(200, &["b"]);
    assert_eq!(world.script.sink.produced().len(), sent + 1);
    world.script.settle();
    world.settle_down();
    assert_eq!(world.script.confirmed(), 208);
}

/// The other router may have produced a part of that again, after what was produced here. The rest
/// has to follow, else the last record of a key in Kafka would not be its last event.
#[test]
fn what_a_session_has_delivered_is_produced_again_once_another_router_has_held_the_slot() {
    let mut world = World::streaming();
    world.script.transaction(100, &["a"]);
    world.script.transaction(200, &["b"]);
    world.script.settle();
    world.script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    let held = world.witness();
    world.another_writes(&held);
    world.connect();
    let sent = world.script.sink.produced().len();
    world.transaction(100, &["a"]);
    world.transaction(200, &["b"]);
    assert_eq!(world.script.sink.produced().len(), sent + 2);
}

/// It is reported, and not written to the witness: a router that reaches the right server is not
/// affected.
#[test]
fn a_router_that_reaches_another_server_waits_for_the_right_one() {
    let mut world = World::streaming();
    world.settle_down();
    let (written, right) = (world.witness(), world.server.clone());
    world.restart();
    world.server.history.system_id = "another".into();
    world.settle_down();
    assert_eq!(world.script.state(), (State::Failed, Some(Code::HistoryChanged)));
    assert_eq!(world.witness(), written);
    world.server = right;
    world.settle_down();
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
}

/// The server was restored to an earlier state. Soon its WAL is as long as before, and then nothing
/// shows the restore any more.
#[test]
fn a_server_whose_wal_was_shorter_is_still_another_one_when_its_wal_has_grown() {
    let mut world = World::streaming();
    world.settle_down();
    let grown = world.server.clone();
    world.restart();
    world.server.wal_end = Lsn::from_u64(15);
    world.settle_down();
    assert_eq!(world.gap(), (Some(Code::HistoryChanged), 0, 16));
    world.server = grown;
    world.restart();
    world.settle_down();
    assert_eq!(world.gap().0, Some(Code::HistoryChanged));
    world.accept();
    world.settle_down();
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
}

/// Otherwise a second gap would follow the acceptance of the first, and begin earlier.
#[test]
fn a_gap_is_recorded_with_all_that_is_acknowledged_by_then() {
    let mut world = World::streaming();
    world.settle_down();
    world.script.take(&wire::keepalive(400));
    world.script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    world.script.source.slot_at = 500;
    assert_eq!(world.witness().position.as_u64(), 16, "the topic does not say it yet");
    world.settle_down();
    assert_eq!((world.gap().0, world.gap().1), (Some(Code::SlotMoved), 400));
    assert_eq!(world.witness().position.as_u64(), 400);
}

/// Kafka was unreachable since this process began, so the gap was found without a witness.
#[test]
fn a_gap_that_the_monitor_saw_before_the_witness_was_read_is_not_forgotten() {
    let mut world = World::streaming();
    world.settle_down();
    world.restart();
    let to = Mark { lsn: Lsn::from_u64(u64::MAX), at: None };
    let interval = Interval { from: Some(to.clone()), to };
    let seen = Gap::new(failure(Code::PublicationLacksInsert), interval);
    world.script.handle(Input::GapSuspected(seen));
    world.settle_down();
    world.settle_down();
    assert_eq!(world.gap().0, Some(Code::PublicationLacksInsert));
}

/// A defect that is repaired before the router is back leaves no trace, but rows are missing.
#[test]
fn a_gap_that_the_monitor_saw_while_there_was_no_session_is_not_forgotten() {
    let seen_at = |lsn| {
        let to = Mark { lsn: Lsn::from_u64(lsn), at: None };
        Gap::new(failure(Code::TableInherited), Interval { from: Some(to.clone()), to })
    };
    let mut world = World::streaming();
    world.settle_down();
    world.script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    world.script.handle(Input::GapSuspected(seen_at(u64::MAX)));
    assert_ne!(
        world.script.state().0,
        State::Failed,
        "whether it is one, the holder of the slot knows"
    );
    world.settle_down();
    world.settle_down();
    assert_eq!(world.gap().0, Some(Code::TableInherited));
    world.accept();
    world.settle_down();
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));

    // Another router has checked everything since then, and found no defect.
    world.script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    world.script.handle(Input::GapSuspected(seen_at(1)));
    world.settle_down();
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
}

#[test]
fn a_session_that_has_just_ended_does_not_check_the_state_topic() {
    let mut world = World::streaming();
    world.transaction(100, &["a"]);
    world.script.handle(Input::Shutdown);
    // As after a pause of the process: the deadline has passed, and a read of the state topic is
    // due.
    world.script.at = world.script.relay.drain_by.unwrap();
    world.script.actions();
    world.script.handle(Input::Tick);
    assert_eq!(world.script.actions().last(), Some(&Action::Exit(ExitReason::EventsUnconfirmed)));
}
