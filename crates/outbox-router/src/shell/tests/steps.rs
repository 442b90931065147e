//! The steps from connecting to a stream.

use super::{postgres::STEPS, *};

fn is_any(_: &Request) -> bool {
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
    let mut fixture = Fixture::begun(settings());
    fixture.until("a session", |world| streams(world)).await;
    let steps = [
        Request::Connect,
        Request::Slot(0),
        Request::Catalog(0),
        Request::Start(0),
        Request::SlotBeside,
    ];
    assert_eq!(fixture.world.postgres.requests().made(), steps);
    assert!(!fixture.world.postgres.is_connected(), "it has become the stream");
    fixture.world.walsender().hang_up();
    let is_asked = |world: &mut World| world.postgres.requests().count(&Request::SlotBeside) == 2;
    fixture.until("another session", is_asked).await;
    let steps = [
        Request::Connect,
        Request::Slot(1),
        Request::Catalog(1),
        Request::Start(1),
        Request::SlotBeside,
    ];
    assert_eq!(fixture.world.postgres.requests().made()[5..], steps);
}

/// Each answer reaches the core before the next step is started.
#[tokio::test(start_paused = true)]
async fn a_step_is_not_taken_before_the_one_before_it_is_answered() {
    let mut fixture = Fixture::begun(settings());
    fixture.world.postgres.requests().hold(is_any);
    for step in [
        Request::Connect,
        Request::Slot(0),
        Request::Catalog(0),
        Request::Start(0),
        Request::SlotBeside,
    ] {
        let asked = |world: &mut World| !world.postgres.requests().waiting().is_empty();
        fixture.until("the next step", asked).await;
        // The server streams already while the slot is read again, and does not wait for long.
        let seconds = if step == Request::SlotBeside { 2 } else { 5 };
        fixture.pass_time(Duration::from_secs(seconds)).await;
        assert_eq!(fixture.world.postgres.requests().waiting(), [step], "one at a time");
        let has_connection = ![Request::Connect, Request::SlotBeside].contains(&step);
        assert_eq!(fixture.world.postgres.is_connected(), has_connection);
        assert_eq!(fixture.state().0, State::Starting);
        assert!(fixture.world.postgres.requests().answer(Ok(())));
    }
    fixture.until("a stream", |world| world.postgres.walsenders() == 1).await;
    fixture.until("news of it", |world| streams(world)).await;
}

fn streams(world: &World) -> bool {
    world.reports.borrow().snapshot.condition.state == State::Streaming
}

/// A promoted server reports where its timeline forked off the one that the router knew.
#[tokio::test(start_paused = true)]
async fn the_history_of_a_new_timeline_is_read_on_the_same_connection() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.postgres.promote(2);
    fixture.world.walsender().hang_up();
    fixture.until("another stream", |world| world.postgres.walsenders() == 2).await;
    let steps = [
        Request::Connect,
        Request::Timelines(1),
        Request::Slot(1),
        Request::Catalog(1),
        Request::Start(1),
    ];
    assert_eq!(fixture.world.postgres.requests().made()[5..10], steps);
}

/// Whichever step is under way when the attempt is given up, its result is not awaited and its
/// connection is closed.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_given_up_ends_its_step_and_its_connection() {
    for step in STEPS {
        let mut fixture = Fixture::held_at(step).await;
        fixture.world.monitor.try_send(a_gap()).unwrap();
        let dropped = |world: &mut World| world.postgres.requests().waiting().is_empty();
        fixture.until("its end", dropped).await;
        assert!(!fixture.world.postgres.is_connected());
        assert!(!fixture.world.postgres.requests().answer(Ok(())), "nobody hears it");
        fixture.pass_time(Duration::from_secs(60)).await;
        assert_eq!(fixture.state(), (State::Failed, Some(Code::PublicationReplaced)));
        assert_eq!(fixture.world.postgres.walsenders(), 0);
    }
}

/// The job ended before its abort took effect.
#[tokio::test(start_paused = true)]
async fn the_result_of_a_step_that_was_just_given_up_is_ignored() {
    let mut fixture = Fixture::held_at(|request| matches!(request, Request::Catalog(_))).await;
    fixture.world.postgres.requests().answer(Ok(()));
    // The job ends, and its result waits to be taken.
    tokio::task::yield_now().await;
    fixture.world.monitor.try_send(a_gap()).unwrap();
    assert_eq!(fixture.shell.turn().await, None);
    assert_eq!(fixture.state(), (State::Failed, Some(Code::PublicationReplaced)));
    assert_eq!(fixture.shell.jobs.len(), 1, "it is still to be heard");
    fixture.until_jobs(0).await;
    fixture.pass_time(Duration::from_secs(60)).await;
    assert!(fixture.shell.open.is_none());
    assert!(!fixture.world.postgres.is_connected());
    assert_eq!(fixture.world.postgres.requests().count(&Request::Start(0)), 0);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_is_reported_once_and_the_next_attempt_starts_over() {
    let mut fixture = Fixture::held_at(|request| matches!(request, Request::Slot(0))).await;
    fixture.world.postgres.requests().answer(Err(failure(Code::ServerUnreachable)));
    fixture.until("a stream", |world| world.postgres.walsenders() == 1).await;
    let errors = fixture.shell.relay.snapshot(fixture.shell.clock.now().at).errors;
    assert_eq!(errors.into_iter().collect::<Vec<_>>(), [(Code::ServerUnreachable, 1)]);
    let asked = fixture.world.postgres.requests().made();
    assert_eq!(asked[..2], [Request::Connect, Request::Slot(0)]);
    assert_eq!(asked[2..4], [Request::Connect, Request::Slot(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_held_is_watched_without_a_connection_and_taken_when_it_is_free() {
    let mut fixture = Fixture::begun(settings());
    fixture.world.postgres.hold_slot(4711);
    fixture.world.postgres.requests().hold(|request| matches!(request, Request::Watch));
    let kept = |world: &mut World| !world.postgres.requests().waiting().is_empty();
    fixture.until("the watch", kept).await;
    assert!(!fixture.world.postgres.is_connected());
    assert_eq!(fixture.state(), (State::Standby, None));
    fixture.world.postgres.requests().answer(Ok(()));
    fixture.until("a stream", |world| world.postgres.walsenders() == 1).await;
}

/// The server accepts START_REPLICATION, and closes the connection before it sends anything.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_closed_at_once_is_a_failure_and_no_session() {
    let mut fixture = Fixture::begun(settings());
    let hung_up = |world: &mut World| match world.postgres.walsenders() {
        0 => false,
        1 => {
            world.walsender().hang_up();
            false
        }
        _ => true,
    };
    fixture.until("another stream", hung_up).await;
    let snapshot = fixture.shell.relay.snapshot(fixture.shell.clock.now().at);
    assert_eq!(snapshot.errors.get(&Code::ServerUnreachable), Some(&1));
}
