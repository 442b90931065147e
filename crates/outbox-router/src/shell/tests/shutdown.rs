//! Shutting down in every phase, within the deadline.

use super::{kafka::Request as KafkaRequest, postgres::STEPS, walsender::Received, *};

/// Shuts down, and says how the process ends and how long it takes.
async fn shut_down(mut fixture: Fixture) -> (ExitReason, Duration) {
    let before = Instant::now();
    fixture.world.shut_down();
    let outcome = fixture.outcome().await;
    fixture.shell.leave().await;
    (outcome, before.elapsed())
}

const AT_ONCE: Duration = Duration::from_millis(200);

#[tokio::test(start_paused = true)]
async fn before_there_is_a_producer_nothing_is_waited_for() {
    let mut fixture = Fixture::begun(settings());
    fixture.world.kafka.requests().hold(|request| matches!(request, KafkaRequest::Open(_)));
    fixture.until("the opening", |world| !world.kafka.requests().waiting().is_empty()).await;
    assert_eq!(shut_down(fixture).await, (ExitReason::Drained, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn no_step_of_a_connection_is_waited_for() {
    for step in STEPS {
        let fixture = Fixture::held_at(step).await;
        assert_eq!(shut_down(fixture).await, (ExitReason::Drained, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_is_not_waited_for() {
    let mut fixture = Fixture::held_at(|request| matches!(request, Request::Connect)).await;
    fixture.world.postgres.requests().answer(Err(failure(Code::AuthenticationFailed)));
    let failed =
        |world: &mut World| world.reports.borrow().snapshot.condition.state == State::Failed;
    fixture.until("its failure", failed).await;
    assert_eq!(shut_down(fixture).await, (ExitReason::Drained, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_standby_exits_at_once() {
    let mut fixture = Fixture::begun(settings());
    fixture.world.postgres.hold_slot(4711);
    fixture.world.postgres.requests().hold(|request| matches!(request, Request::Watch));
    let kept = |world: &mut World| !world.postgres.requests().waiting().is_empty();
    fixture.until("the watch", kept).await;
    assert_eq!(shut_down(fixture).await, (ExitReason::Drained, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_halted_router_exits_at_once() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.monitor.try_send(super::steps::a_gap()).unwrap();
    fixture.until("the end of the session", |world| world.walsender().is_left()).await;
    assert_eq!(shut_down(fixture).await, (ExitReason::Drained, Duration::ZERO));
}

/// From the beginning to the end, as `run` does it.
#[tokio::test(start_paused = true)]
async fn a_stream_is_ended_in_good_order_and_the_producer_is_closed() {
    let Fixture { shell, mut world } = Fixture::new(settings());
    let mut running = pin!(shell.run());
    let mut goodbye = Some(());
    let outcome = poll_fn(|cx| {
        world.test_waker.set(cx.waker());
        let running = running.as_mut().poll(cx);
        if world.postgres.walsenders() > 0 {
            world.shut_down();
            let ended = world.walsender().received().last() == Some(&Received::CopyDone);
            if ended && goodbye.take().is_some() {
                world.walsender().copy_done();
            }
        }
        running
    });
    assert_eq!(outcome.await, ExitReason::Drained);
    world.outcome = Some(ExitReason::Drained);
    assert!(world.producer().is_closed());
    assert_eq!(world.reports.borrow().snapshot.condition.state, State::Draining);
}

#[tokio::test(start_paused = true)]
async fn records_in_flight_are_waited_for_and_confirmed() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.walsender().send(&transaction(100, &["a"]));
    fixture.produced(1).await;
    fixture.world.shut_down();
    fixture.pass_time(Duration::from_secs(10)).await;
    fixture.world.producer().ack_all();
    let ended =
        |world: &mut World| world.walsender().received().last() == Some(&Received::CopyDone);
    fixture.until("the end of our half", ended).await;
    assert_eq!(fixture.world.walsender().confirmed(), 108);
    fixture.world.walsender().send(&[wire::keepalive(1_000)]);
    fixture.world.walsender().copy_done();
    let before = Instant::now();
    assert_eq!(fixture.outcome().await, ExitReason::Drained);
    assert!(before.elapsed() < AT_ONCE);
}

/// A broker that never answers, and a server that never sends CopyDone.
#[tokio::test(start_paused = true)]
async fn nothing_is_waited_for_longer_than_the_deadline() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.walsender().send(&transaction(100, &["a"]));
    fixture.produced(1).await;
    let (outcome, time) = shut_down(fixture).await;
    assert_eq!(outcome, ExitReason::EventsUnconfirmed);
    assert!(time >= DRAIN && time < DRAIN + AT_ONCE, "{time:?}");

    let fixture = Fixture::streaming(settings()).await;
    let (outcome, time) = shut_down(fixture).await;
    assert_eq!(outcome, ExitReason::Drained, "everything is confirmed");
    assert!(time >= DRAIN && time < DRAIN + AT_ONCE, "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_meanwhile_ends_the_wait_with_the_next_status_update() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.walsender().send(&transaction(100, &["a"]));
    fixture.produced(1).await;
    fixture.world.shut_down();
    fixture.pass_time(Duration::from_secs(1)).await;
    fixture.world.walsender().hang_up();
    let (outcome, time) = shut_down(fixture).await;
    assert_eq!(outcome, ExitReason::EventsUnconfirmed);
    assert!(time <= WAL_SENDER_TIMEOUT / 3, "{time:?}");
}
