//! From a pending row to its mark.

use std::time::Duration;

use super::{
    super::{table::BETWEEN_NOTIFIED, *},
    world::{self, RowState, World, dead_letters, settings, two_tables},
};
use crate::{
    failure::{Code, Failure},
    held::ErrorPolicy,
    protocol::ExitReason,
    routing::record::TopicId,
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

/// An upsert, say: what it wrote is in no record.
#[test]
fn a_row_that_is_changed_while_it_is_sent_stays_pending_and_is_sent_again() {
    let mut world = World::new(settings());
    world.insert(&[K, Some("l"), K]);
    world.settle();
    world.change(0);
    world.run();
    assert_eq!(world.states()[0], RowState::Pending);
    world.pass(Duration::from_secs(1));
    world.run();
    assert_eq!(world.produced(), ["0", "1", "2", "0"]);
    assert_eq!(world.states(), [RowState::Published; 3]);
    let report = world.core.report(world.now);
    assert_eq!((report.tables[0].published, report.tables[0].changed), (3, 1));
}

/// Nothing else than a change is counted as one.
#[test]
fn a_row_that_another_one_has_marked_or_requeued_unchanged_counts_as_no_change() {
    let mut world = World::new(settings());
    world.insert(&[K, K]);
    world.settle();
    world.table[0].state = RowState::Published;
    world.run();
    assert_eq!(world.produced(), ["0", "1"]);
    assert_eq!(world.core.report(world.now).tables[0].changed, 0);
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

/// The version that was sent is that of another content now.
#[test]
fn nothing_is_marked_that_was_read_on_a_connection_that_is_lost() {
    for is_asked_before in [true, false] {
        let mut world = World::new(settings());
        world.insert(&[K; 2]);
        world.settle();
        let acks = world.sink.ack_all();
        world.input(PollInput::Acks(&acks));
        if is_asked_before {
            let Some(PollAction::Settle(_)) = world.take_asked() else { panic!("the marks") };
            let broken = Failure::new(Code::ServerUnreachable, "broken");
            world.input(PollInput::Settled(Err(broken)));
        }
        world.lose_commit(1, "{\"a\":1}");
        world.pass(Duration::from_millis(100));
        let Some(marks @ PollAction::Settle(_)) = world.take_asked() else { panic!("the marks") };
        world.answer(marks);
        assert_eq!(world.states(), [RowState::Pending; 2]);
        let [PollAction::Fetch(_)] = world.asked[..] else { panic!("{:?}", world.asked) };
        world.run();
        assert_eq!(world.states(), [RowState::Published; 2]);
        assert_eq!(world.produced(), ["0", "1", "0", "1"], "the batch, once more");
        let last = world.sink.produced().last().unwrap();
        assert_eq!(last.value.as_deref(), Some(&b"{\"a\":1}"[..]));
        assert_eq!(world.core.report(world.now).claims_lost, 0);
    }
}

#[test]
fn a_process_that_is_to_end_does_not_count_a_batch_as_done_whose_connection_is_lost() {
    let mut world = World::new(settings());
    world.insert(&[K]);
    world.settle();
    let acks = world.sink.ack_all();
    world.input(PollInput::Acks(&acks));
    world.input(PollInput::Shutdown);
    world.session = world.session.next();
    world.settle();
    assert_eq!(world.exited, Some(ExitReason::EventsUnconfirmed));
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

const MISSING: TableIndex = TableIndex(0);
const OTHER: TableIndex = TableIndex(1);

fn batches(world: &World, table: TableIndex) -> u64 {
    world.core.report(world.now).tables[table.0].batches
}

/// One table's only row has a topic that is missing, and this was found out. The other's only row
/// is delivered.
fn with_a_missing_topic() -> World {
    let mut world = World::new(two_tables());
    world.insert_into(MISSING, &[K]);
    world.table[0].topic = "missing";
    world.insert_into(OTHER, &[K]);
    world.run();
    world
}

#[test]
fn a_topic_that_is_missing_holds_up_no_other_table() {
    let mut world = with_a_missing_topic();
    for _ in 0..10 {
        world.insert_into(OTHER, &[K; 10]);
        world.pass(BETWEEN_NOTIFIED);
        world.input(PollInput::Notified(OTHER));
        world.run();
    }
    assert_eq!(world.produced().len(), 101);
    let report = world.core.report(world.now);
    assert_eq!(report.tables[OTHER.0].published, 101);
    assert_eq!(report.reason.unwrap().code, Code::TopicMissing);
    assert_eq!(world.states()[0], RowState::Pending);
}

#[test]
fn a_table_is_not_read_again_before_the_topic_that_it_waits_for_is_looked_up_again() {
    let mut world = with_a_missing_topic();
    assert_eq!(batches(&world, MISSING), 1);
    world.pass(Duration::from_millis(999));
    world.input(PollInput::Notified(MISSING));
    world.run();
    assert_eq!(batches(&world, MISSING), 1, "not even at a NOTIFY");
    assert_eq!(world.core.deadline(world.now), Some(world.now + Duration::from_millis(1)));
    world.pass(Duration::from_millis(1));
    let topic = until_look_up(&mut world);
    assert_eq!(batches(&world, MISSING), 2);
    // While the answer is awaited, the other table has its turn.
    world.insert_into(OTHER, &[K]);
    world.pass(BETWEEN_NOTIFIED);
    world.input(PollInput::Notified(OTHER));
    world.run();
    assert_eq!(world.produced(), ["1", "2"]);
    let report = world.core.report(world.now);
    assert_eq!(report.reason.unwrap().code, Code::TopicMissing);
    assert_eq!(batches(&world, MISSING), 2);
    world.input(PollInput::Topic(topic, Ok(world::topic_facts())));
    world.run();
    assert_eq!(world.produced(), ["1", "2", "0"]);
    assert_eq!(world.states(), [RowState::Published; 3]);
    assert_eq!(world.core.report(world.now).state, PollState::Polling);
}

/// Answers everything up to the next look-up of a topic, which it takes out.
fn until_look_up(world: &mut World) -> TopicId {
    for _ in 0..100 {
        match world.take_asked() {
            Some(PollAction::LookUpTopic(topic, _)) => return topic,
            Some(action) => world.answer(action),
            None => world.produce(),
        }
    }
    panic!("no topic is looked up")
}

#[test]
fn the_first_look_up_of_a_topic_is_waited_for_in_place() {
    let mut world = World::new(settings());
    world.claimed = Claimed::Yes;
    world.insert(&[K; 2]);
    let topic = until_look_up(&mut world);
    world.pass(Duration::from_secs(1));
    world.produce();
    assert_eq!(world.asked, [], "its rows are not given back");
    world.input(PollInput::Topic(topic, Ok(world::topic_facts())));
    world.run();
    assert_eq!(world.produced(), ["0", "1"]);
    assert_eq!(batches(&world, TableIndex(0)), 2, "its two rows, and that there are no more");
}

#[test]
fn what_comes_before_a_row_whose_topic_is_missing_is_marked_and_the_rest_given_back() {
    let mut world = World::new(settings());
    world.claimed = Claimed::Yes;
    world.insert(&[K; 4]);
    world.table[2].topic = "missing";
    world.settle();
    assert_eq!(world.produced(), ["0", "1"]);
    let acks = world.sink.ack_all();
    world.input(PollInput::Acks(&acks));
    let Some(PollAction::Settle(request)) = world.take_asked() else { panic!("marks") };
    let published = request.published.iter().map(|sent| sent.row().id.clone());
    assert_eq!(published.collect::<Vec<_>>(), [world::id(0), world::id(1)]);
    let released = request.released.iter().map(|row| row.id.clone());
    assert_eq!(released.collect::<Vec<_>>(), [world::id(2), world::id(3)]);
    assert!(request.failed.is_empty());
    world.answer(PollAction::Settle(request));
    assert_eq!(world.asked, []);
    // Somebody corrects the row.
    world.table[2].topic = "t";
    world.pass(Duration::from_secs(1));
    world.run();
    assert_eq!(world.produced(), ["0", "1", "2", "3"]);
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

/// Leases are renewed on another connection, and say nothing of the marks.
#[test]
fn why_marks_cannot_be_written_is_reported_until_they_are() {
    let mut world = World::new(settings());
    world.insert(&[K]);
    world.settle();
    let acks = world.sink.ack_all();
    world.input(PollInput::Acks(&acks));
    let Some(PollAction::Settle(request)) = world.take_asked() else { panic!("no marks") };
    let refused = Failure::new(Code::Polling, "a trigger undoes marks");
    world.input(PollInput::Settled(Err(refused.clone())));
    for _ in 0..20 {
        let report = world.core.report(world.now);
        assert_eq!((report.state, report.reason), (PollState::Failed, Some(refused.clone())));
        world.pass(Duration::from_millis(700));
        let asked = std::mem::take(&mut world.asked);
        for action in asked {
            if let PollAction::Settle(again) = &action {
                assert_eq!(*again, request);
                world.input(PollInput::Settled(Err(refused.clone())));
            } else {
                world.answer(action);
            }
        }
    }
    world.pass(Duration::from_secs(60));
    world.run();
    let report = world.core.report(world.now);
    assert_eq!((report.state, report.reason), (PollState::Polling, None));
}

/// As an operator raises it: the worker keeps its producer, and the row is tried again.
#[test]
fn a_raised_limit_of_a_topic_is_noticed_before_the_next_attempt() {
    for on_error in [ErrorPolicy::default(), dead_letters()] {
        let on_error = ErrorPolicy { too_large: on_error.bad_row, ..on_error };
        let mut world = World::new(PollerSettings { on_error, ..settings() });
        world.topic_limit = Some(1_000);
        world.insert(&[K, K, Some("l")]);
        world.table[1].payload = "x".repeat(2_000);
        world.run();
        assert_eq!(world.produced(), ["0", "2"]);
        let failed = world.core.report(world.now).tables[0].failure.clone().unwrap();
        assert_eq!(failed.code, Code::RecordTooLarge);
        world.topic_limit = Some(10_000);
        world.pass(Duration::from_secs(30));
        world.run();
        assert_eq!(world.produced(), ["0", "2", "1"], "{on_error:?}");
        assert_eq!(world.states(), [RowState::Published; 3]);
    }
}

#[test]
fn a_row_that_is_too_large_for_its_topic_waits_for_half_a_minute_at_most() {
    let mut world = World::new(settings());
    world.topic_limit = Some(1_000);
    world.insert(&[K]);
    world.table[0].payload = "x".repeat(2_000);
    world.run();
    for _ in 0..12 {
        world.pass(Duration::from_secs(30));
        world.run();
    }
    let tried = world.core.report(world.now).tables[0].failed;
    assert!(tried >= 12, "{tried} attempts in six minutes");
}
