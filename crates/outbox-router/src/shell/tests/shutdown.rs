//! Shutting down in every phase, within the deadline.

use super::{kafka::Ask as OfKafka, postgres::STEPS, walsender::Heard, *};

/// Shuts down, and says how the process ends and how long it takes.
async fn left(mut stage: Stage) -> (ExitReason, Duration) {
    let before = Instant::now();
    stage.world.shut_down();
    let outcome = stage.outcome().await;
    stage.shell.leave().await;
    (outcome, before.elapsed())
}

const AT_ONCE: Duration = Duration::from_millis(200);

#[tokio::test(start_paused = true)]
async fn before_there_is_a_producer_nothing_is_waited_for() {
    let mut stage = Stage::begun(settings());
    stage.world.kafka.desk().keep(|ask| matches!(ask, OfKafka::Open(_)));
    stage.until("the opening", |world| !world.kafka.desk().waiting().is_empty()).await;
    assert_eq!(left(stage).await, (ExitReason::Drained, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn no_step_of_a_connection_is_waited_for() {
    for step in STEPS {
        let stage = Stage::held_at(step).await;
        assert_eq!(left(stage).await, (ExitReason::Drained, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_is_not_waited_for() {
    let mut stage = Stage::held_at(|ask| matches!(ask, Ask::Open)).await;
    stage.world.postgres.desk().answer(Err(failure(Code::AuthenticationFailed)));
    let failed =
        |world: &mut World| world.reports.borrow().snapshot.condition.state == State::Failed;
    stage.until("its failure", failed).await;
    assert_eq!(left(stage).await, (ExitReason::Drained, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_standby_exits_at_once() {
    let mut stage = Stage::begun(settings());
    stage.world.postgres.hold_slot(4711);
    stage.world.postgres.desk().keep(|ask| matches!(ask, Ask::Watch));
    let kept = |world: &mut World| !world.postgres.desk().waiting().is_empty();
    stage.until("the watch", kept).await;
    assert_eq!(left(stage).await, (ExitReason::Drained, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_halted_router_exits_at_once() {
    let mut stage = Stage::streaming(settings()).await;
    stage.world.monitor.try_send(super::steps::a_gap()).unwrap();
    stage.until("the end of the session", |world| world.walsender().is_left()).await;
    assert_eq!(left(stage).await, (ExitReason::Drained, Duration::ZERO));
}

/// From the beginning to the end, as `run` does it.
#[tokio::test(start_paused = true)]
async fn a_stream_is_ended_in_good_order_and_the_producer_is_closed() {
    let Stage { shell, mut world } = Stage::new(settings());
    let mut running = pin!(shell.run());
    let mut goodbye = Some(());
    let outcome = poll_fn(|cx| {
        world.bell.wakes(cx.waker());
        let running = running.as_mut().poll(cx);
        if world.postgres.walsenders() > 0 {
            world.shut_down();
            let ended = world.walsender().heard().last() == Some(&Heard::CopyDone);
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
    let mut stage = Stage::streaming(settings()).await;
    stage.world.walsender().send(&transaction(100, &["a"]));
    stage.produced(1).await;
    stage.world.shut_down();
    stage.pass_time(Duration::from_secs(10)).await;
    stage.world.producer().ack_all();
    let ended = |world: &mut World| world.walsender().heard().last() == Some(&Heard::CopyDone);
    stage.until("the end of our half", ended).await;
    assert_eq!(stage.world.walsender().told(), 108);
    stage.world.walsender().send(&[wire::keepalive(1_000)]);
    stage.world.walsender().copy_done();
    let before = Instant::now();
    assert_eq!(stage.outcome().await, ExitReason::Drained);
    assert!(before.elapsed() < AT_ONCE);
}

/// A broker that never answers, and a server that never sends CopyDone.
#[tokio::test(start_paused = true)]
async fn nothing_is_waited_for_longer_than_the_deadline() {
    let mut stage = Stage::streaming(settings()).await;
    stage.world.walsender().send(&transaction(100, &["a"]));
    stage.produced(1).await;
    let (outcome, time) = left(stage).await;
    assert_eq!(outcome, ExitReason::DeadlinePassed);
    assert!(time >= DRAIN && time < DRAIN + AT_ONCE, "{time:?}");

    let stage = Stage::streaming(settings()).await;
    let (outcome, time) = left(stage).await;
    assert_eq!(outcome, ExitReason::Drained, "everything is confirmed");
    assert!(time >= DRAIN && time < DRAIN + AT_ONCE, "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_meanwhile_ends_the_wait_with_the_next_status_update() {
    let mut stage = Stage::streaming(settings()).await;
    stage.world.walsender().send(&transaction(100, &["a"]));
    stage.produced(1).await;
    stage.world.shut_down();
    stage.pass_time(Duration::from_secs(1)).await;
    stage.world.walsender().hang_up();
    let (outcome, time) = left(stage).await;
    assert_eq!(outcome, ExitReason::DeadlinePassed);
    assert!(time <= WAL_SENDER_TIMEOUT / 3, "{time:?}");
}
