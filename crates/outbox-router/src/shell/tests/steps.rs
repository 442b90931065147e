//! The steps from connecting to a stream.

use super::{postgres::STEPS, *};

fn is_any(_: &Ask) -> bool {
    true
}

pub(super) fn a_gap() -> MonitorEvent {
    let to = relay::source::Mark { lsn: relay::Lsn::from_u64(1_000), at: None };
    let interval = relay::source::Interval { from: None, to };
    let gap = relay::source::Gap::new(failure(Code::PublicationReplaced), interval);
    MonitorEvent::GapSuspected(Box::new(gap))
}

/// The server that was checked is the one that streams, and the slot is read once more when no
/// other process can hold it.
#[tokio::test(start_paused = true)]
async fn server_slot_and_catalog_are_read_in_this_order_on_the_connection_that_will_stream() {
    let mut stage = Stage::begun(settings());
    stage.until("a session", |world| streams(world)).await;
    let steps = [Ask::Open, Ask::Slot(0), Ask::Catalog(0), Ask::Start(0), Ask::SlotBeside];
    assert_eq!(stage.world.postgres.desk().asked(), steps);
    assert!(!stage.world.postgres.is_connected(), "it has become the stream");
    stage.world.walsender().hang_up();
    let is_asked = |world: &mut World| world.postgres.desk().count(&Ask::SlotBeside) == 2;
    stage.until("another session", is_asked).await;
    let steps = [Ask::Open, Ask::Slot(1), Ask::Catalog(1), Ask::Start(1), Ask::SlotBeside];
    assert_eq!(stage.world.postgres.desk().asked()[5..], steps);
}

/// Each answer reaches the core before the next step is started.
#[tokio::test(start_paused = true)]
async fn a_step_is_not_taken_before_the_one_before_it_is_answered() {
    let mut stage = Stage::begun(settings());
    stage.world.postgres.desk().keep(is_any);
    for step in [Ask::Open, Ask::Slot(0), Ask::Catalog(0), Ask::Start(0), Ask::SlotBeside] {
        let asked = |world: &mut World| !world.postgres.desk().waiting().is_empty();
        stage.until("the next step", asked).await;
        stage.pass_time(Duration::from_secs(5)).await;
        assert_eq!(stage.world.postgres.desk().waiting(), [step], "one at a time");
        let has_connection = ![Ask::Open, Ask::SlotBeside].contains(&step);
        assert_eq!(stage.world.postgres.is_connected(), has_connection);
        assert_eq!(stage.state().0, State::Starting);
        assert!(stage.world.postgres.desk().answer(Ok(())));
    }
    stage.until("a stream", |world| world.postgres.walsenders() == 1).await;
    stage.until("news of it", |world| streams(world)).await;
}

fn streams(world: &World) -> bool {
    world.reports.borrow().snapshot.condition.state == State::Streaming
}

/// A promoted server reports where its timeline left the one that the router knew.
#[tokio::test(start_paused = true)]
async fn the_history_of_a_new_timeline_is_read_on_the_same_connection() {
    let mut stage = Stage::streaming(settings()).await;
    stage.world.postgres.promote(2);
    stage.world.walsender().hang_up();
    stage.until("another stream", |world| world.postgres.walsenders() == 2).await;
    let steps = [Ask::Open, Ask::Timelines(1), Ask::Slot(1), Ask::Catalog(1), Ask::Start(1)];
    assert_eq!(stage.world.postgres.desk().asked()[5..10], steps);
}

/// Whichever step is under way when the attempt is given up, its result is not awaited and its
/// connection is closed.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_given_up_ends_its_step_and_its_connection() {
    for step in STEPS {
        let mut stage = Stage::held_at(step).await;
        stage.world.monitor.try_send(a_gap()).unwrap();
        let dropped = |world: &mut World| world.postgres.desk().waiting().is_empty();
        stage.until("its end", dropped).await;
        assert!(!stage.world.postgres.is_connected());
        assert!(!stage.world.postgres.desk().answer(Ok(())), "nobody hears it");
        stage.pass_time(Duration::from_secs(60)).await;
        assert_eq!(stage.state(), (State::Failed, Some(Code::PublicationReplaced)));
        assert_eq!(stage.world.postgres.walsenders(), 0);
    }
}

/// The job ended before its abort took effect.
#[tokio::test(start_paused = true)]
async fn the_result_of_a_step_that_was_just_given_up_is_ignored() {
    let mut stage = Stage::held_at(|ask| matches!(ask, Ask::Catalog(_))).await;
    stage.world.postgres.desk().answer(Ok(()));
    // The job ends, and its result waits to be taken.
    tokio::task::yield_now().await;
    stage.world.monitor.try_send(a_gap()).unwrap();
    assert_eq!(stage.shell.turn().await, None);
    assert_eq!(stage.state(), (State::Failed, Some(Code::PublicationReplaced)));
    assert_eq!(stage.shell.jobs.len(), 1, "it is still to be heard");
    stage.until_jobs(0).await;
    stage.pass_time(Duration::from_secs(60)).await;
    assert!(stage.shell.open.is_none());
    assert!(!stage.world.postgres.is_connected());
    assert_eq!(stage.world.postgres.desk().count(&Ask::Start(0)), 0);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_is_reported_once_and_the_next_attempt_starts_over() {
    let mut stage = Stage::held_at(|ask| matches!(ask, Ask::Slot(0))).await;
    stage.world.postgres.desk().answer(Err(failure(Code::ServerUnreachable)));
    stage.until("a stream", |world| world.postgres.walsenders() == 1).await;
    let errors = stage.shell.relay.snapshot(stage.shell.clock.now().at).errors;
    assert_eq!(errors.into_iter().collect::<Vec<_>>(), [(Code::ServerUnreachable, 1)]);
    let asked = stage.world.postgres.desk().asked();
    assert_eq!(asked[..2], [Ask::Open, Ask::Slot(0)]);
    assert_eq!(asked[2..4], [Ask::Open, Ask::Slot(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_held_is_watched_without_a_connection_and_taken_when_it_is_free() {
    let mut stage = Stage::begun(settings());
    stage.world.postgres.hold_slot(4711);
    stage.world.postgres.desk().keep(|ask| matches!(ask, Ask::Watch));
    let kept = |world: &mut World| !world.postgres.desk().waiting().is_empty();
    stage.until("the watch", kept).await;
    assert!(!stage.world.postgres.is_connected());
    assert_eq!(stage.state(), (State::Standby, None));
    stage.world.postgres.desk().answer(Ok(()));
    stage.until("a stream", |world| world.postgres.walsenders() == 1).await;
}

/// The server accepts START_REPLICATION, and closes the connection before it sends anything.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_closed_at_once_is_a_failure_and_no_session() {
    let mut stage = Stage::begun(settings());
    let hung_up = |world: &mut World| match world.postgres.walsenders() {
        0 => false,
        1 => {
            world.walsender().hang_up();
            false
        }
        _ => true,
    };
    stage.until("another stream", hung_up).await;
    let snapshot = stage.shell.relay.snapshot(stage.shell.clock.now().at);
    assert_eq!(snapshot.errors.get(&Code::ServerUnreachable), Some(&1));
}
