//! A process that was stopped: what it finds when it wakes may be out of date.

use super::*;

/// Wakes the waiting shell so long after its deadline. Meanwhile there was room for what it had
/// read.
async fn stall(fixture: &mut Fixture, time: Duration) {
    let Fixture { shell, world } = fixture;
    shell.report_if_due();
    let due = shell.wake_at();
    let mut turn = pin!(shell.turn());
    let waits = poll_fn(|cx| Poll::Ready(turn.as_mut().poll(cx).is_pending()));
    assert!(waits.await);
    world.producer().ack_all();
    tokio::time::advance(due.saturating_duration_since(Instant::now()) + time).await;
    assert_eq!(turn.await, None);
}

/// By then another process may hold the slot, and may have got the WAL that was read here.
#[tokio::test(start_paused = true)]
async fn a_task_that_was_not_woken_in_time_starts_over_before_it_produces() {
    let mut fixture = Fixture::full().await;
    fixture.read();
    let former = fixture.world.producer();
    stall(&mut fixture, WAL_SENDER_TIMEOUT / 2).await;
    assert_eq!(former.keys(), ["warm-up", "a", "b", "c", "d"]);
    assert_eq!(fixture.state(), (State::Starting, Some(Code::ServerSilent)));
    fixture.until("another producer", |world| world.kafka.producers() == 2).await;
    fixture.until("another stream", |world| world.postgres.walsenders() == 2).await;
    assert!(former.is_closed());
    assert_eq!(former.keys().len(), 5);
}

/// The server's `wal_sender_timeout` is longer than that.
#[tokio::test(start_paused = true)]
async fn a_task_that_was_woken_a_little_late_continues() {
    let mut fixture = Fixture::full().await;
    fixture.read();
    stall(&mut fixture, WAL_SENDER_TIMEOUT / 2 - Duration::from_millis(1)).await;
    fixture.produced(1).await;
    assert_eq!(fixture.world.producer().keys().last().unwrap(), "e");
    assert_eq!(fixture.world.postgres.walsenders(), 1);
}

/// A shell that was stopped while it worked, with acknowledgements that make room for what it had
/// read, and its producer.
async fn stopped_while_it_worked() -> (Fixture, Producer) {
    let mut fixture = Fixture::full().await;
    fixture.read();
    let former = fixture.world.producer();
    former.ack_all();
    tokio::time::advance(WAL_SENDER_TIMEOUT / 2).await;
    (fixture, former)
}

fn assert_starts_over(fixture: &mut Fixture, former: &Producer) {
    assert_eq!(former.keys().len(), 5);
    assert_eq!(fixture.state(), (State::Starting, Some(Code::ServerSilent)));
}

/// The stop came after the wait.
#[tokio::test(start_paused = true)]
async fn a_task_that_was_stopped_before_it_collected_acks_starts_over_before_it_produces() {
    let (mut fixture, former) = stopped_while_it_worked().await;
    fixture.shell.apply(ShellEvent::Acks);
    assert_starts_over(&mut fixture, &former);
}

/// The stop came before the wait, whose deadline is of the time after it.
#[tokio::test(start_paused = true)]
async fn a_task_that_was_stopped_at_the_end_of_its_work_starts_over_before_it_produces() {
    let (mut fixture, former) = stopped_while_it_worked().await;
    fixture.shell.input(Input::Tick);
    assert_eq!(fixture.shell.turn().await, None);
    assert_starts_over(&mut fixture, &former);
}
