//! From a pending row to its mark.

use std::time::Duration;

use super::{
    super::{table::BETWEEN_NOTIFIED, *},
    world::{RowState, World, settings},
};
use crate::{
    failure::{Code, Failure},
    protocol::ExitReason,
};

const K: Option<&str> = Some("k");

#[test]
fn rows_are_produced_in_their_order_and_marked_after_their_acknowledgement() {
    let mut world = World::new(settings());
    world.insert(&[K, Some("l"), K]);
    world.settle();
    assert_eq!(world.produced(), ["0", "1", "2"]);
    assert_eq!(world.states(), [RowState::Pending; 3], "nothing is acknowledged yet");
    world.ack_all();
    assert_eq!(world.states(), [RowState::Published; 3]);
    assert_eq!(world.core.report(world.now).tables[0].published, 3);
}

#[test]
fn the_next_batch_is_read_after_the_marks_of_this_one() {
    let mut world = World::new(settings());
    world.insert(&[K; 9]);
    world.settle();
    assert_eq!(world.produced().len(), 4, "one batch is in flight");
    let acks = world.sink.ack_all();
    world.input(PollInput::Acks(&acks));
    let Some(PollAction::Settle(request)) = world.take_asked() else { panic!("marks come first") };
    assert!(world.asked.is_empty(), "{:?}", world.asked);
    world.answer(PollAction::Settle(request));
    world.run();
    assert_eq!(world.states(), [RowState::Published; 9]);
    assert_eq!(world.produced(), ["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
}

#[test]
fn a_row_that_commits_late_is_found_by_its_mark() {
    let mut world = World::new(settings());
    world.insert(&[K, K]);
    // The first row's transaction is still open.
    let late = world.table.remove(0);
    world.run();
    assert_eq!(world.produced(), ["1"]);
    world.table.insert(0, late);
    world.pass(Duration::from_secs(1));
    world.run();
    assert_eq!(world.produced(), ["1", "0"]);
    assert_eq!(world.states(), [RowState::Published; 2]);
}

#[test]
fn an_empty_table_is_read_once_an_interval_and_at_a_notify() {
    let mut world = World::new(settings());
    world.run();
    let batches = |world: &World| world.core.report(world.now).tables[0].batches;
    assert_eq!(batches(&world), 1);
    world.pass(Duration::from_millis(999));
    world.settle();
    assert_eq!(batches(&world), 1);
    assert_eq!(world.core.deadline(world.now), Some(world.now + Duration::from_millis(1)));
    world.pass(Duration::from_millis(1));
    world.settle();
    assert_eq!(batches(&world), 2);
    world.pass(BETWEEN_NOTIFIED);
    world.input(PollInput::Notified(TableIndex(0)));
    world.settle();
    assert_eq!(batches(&world), 3);
}

/// Each reading costs the server as much, however few rows it finds.
#[test]
fn notifies_within_five_milliseconds_are_one_reading() {
    let mut world = World::new(settings());
    world.run();
    let batches = |world: &World| world.core.report(world.now).tables[0].batches;
    world.pass(Duration::from_millis(100));
    for _ in 0..3 {
        world.insert(&[K]);
        world.input(PollInput::Notified(TableIndex(0)));
        world.run();
    }
    assert_eq!((batches(&world), world.produced().len()), (2, 1), "the first one wakes at once");
    assert_eq!(world.core.deadline(world.now), Some(world.now + Duration::from_millis(5)));
    world.pass(Duration::from_millis(5));
    world.run();
    assert_eq!((batches(&world), world.produced().len()), (3, 3));
}

#[test]
fn marks_that_cannot_be_written_are_written_again_before_anything_is_read() {
    let mut world = World::new(settings());
    world.insert(&[K; 2]);
    world.settle();
    let acks = world.sink.ack_all();
    world.input(PollInput::Acks(&acks));
    let Some(PollAction::Settle(first)) = world.take_asked() else { panic!("the marks") };
    let broken = || Failure::new(Code::ServerUnreachable, "broken");
    world.input(PollInput::Settled(Err(broken())));
    assert!(world.asked.is_empty());
    assert_eq!(world.core.report(world.now).state, PollState::Starting);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.asked, [PollAction::Settle(first)]);
    world.run();
    assert_eq!(world.states(), [RowState::Published; 2]);
    assert_eq!(world.produced().len(), 2, "nothing was produced again");
}

#[test]
fn after_a_failed_delivery_the_acknowledged_rows_are_marked_and_the_others_produced_again() {
    let mut world = World::new(settings());
    world.insert(&[K; 3]);
    world.settle();
    let lane = world.sink.waiting()[0];
    let mut acks = crate::Acks::default();
    world.sink.store(lane);
    world.sink.ack(lane, &mut acks);
    world.input(PollInput::Acks(&acks));
    let transaction = world.sink.fail(lane);
    let failure = Failure::new(Code::KafkaUnreachable, "the broker is down");
    world.input(PollInput::DeliveryFailed { transaction, failure });
    assert!(world.asked.contains(&PollAction::ReplaceSink { wait: Duration::ZERO }));
    world.run();
    assert_eq!(world.produced(), ["1", "2"], "the first one was acknowledged");
    assert_eq!(world.states(), [RowState::Published; 3]);
    assert_eq!(world.table[1].attempts, 0, "a broker that is down is no attempt of the row");
}

#[test]
fn a_topic_that_is_missing_is_waited_for() {
    let mut world = World::new(settings());
    world.insert(&[K]);
    world.table[0].topic = "missing";
    world.settle();
    let report = world.core.report(world.now);
    assert_eq!(
        (report.state, report.reason.unwrap().code),
        (PollState::Blocked, Code::TopicMissing)
    );
    assert_eq!(world.table[0].attempts, 0);

    // The batch is given up before its lease ends, and its rows are read again: all the while.
    for _ in 0..40 {
        world.pass(Duration::from_millis(500));
        while let Some(action) = world.take_asked() {
            let report = world.core.report(world.now);
            assert_eq!(report.state, PollState::Blocked, "before {action:?}");
            world.answer(action);
            world.produce();
        }
    }
    // Somebody corrects the row.
    world.table[0].topic = "t";
    for _ in 0..20 {
        world.pass(Duration::from_millis(500));
        world.run();
    }
    assert_eq!(world.states(), [RowState::Published]);
    assert_eq!(world.core.report(world.now).state, PollState::Polling);
}

#[test]
fn a_stop_waits_for_what_is_in_flight_and_gives_the_shards_back() {
    let mut world = World::new(settings());
    world.insert(&[K; 9]);
    world.settle();
    world.input(PollInput::Shutdown);
    assert_eq!(world.exited, None);
    assert_eq!(world.core.report(world.now).state, PollState::Draining);
    let acks = world.sink.ack_all();
    world.input(PollInput::Acks(&acks));
    let Some(marks @ PollAction::Settle(_)) = world.take_asked() else { panic!("marks") };
    world.answer(marks);
    assert_eq!(world.asked, [PollAction::Lease(LeaseRequest::Release)]);
    world.settle();
    assert_eq!(world.exited, Some(ExitReason::Drained));
    assert_eq!(world.produced().len(), 4, "nothing new was begun");
}

#[test]
fn a_stop_ends_at_its_limit() {
    let mut world = World::new(settings());
    world.insert(&[K]);
    world.settle();
    world.input(PollInput::Shutdown);
    world.pass(Duration::from_secs(25));
    assert_eq!(world.exited, Some(ExitReason::EventsUnconfirmed));
}
