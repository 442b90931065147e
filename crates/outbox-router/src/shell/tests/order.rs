//! The order in which inputs reach the core and actions leave it, within one turn and between
//! turns.

use std::sync::{Arc, Mutex};

use super::*;

/// I3: what was acknowledged before the failure counts as acknowledged.
#[tokio::test(start_paused = true)]
async fn acknowledgements_that_come_with_a_failure_count() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.walsender().send(&transaction(100, &["a"]));
    fixture.produced(1).await;
    fixture.world.producer().ack_all();
    fixture.world.producer().break_down(failure(Code::DeliveryFailed));
    let left = |world: &mut World| world.walsender().is_left();
    fixture.until("the end of the session", left).await;
    assert_eq!(fixture.world.walsender().confirmed(), 108, "told before the session ended");
}

/// The same for a position whose write is acknowledged together with the failure.
#[tokio::test(start_paused = true)]
async fn a_written_witness_that_comes_with_a_failure_counts() {
    let mut fixture = witnessed_fixture().await;
    fixture.world.walsender().send(&transaction(100, &["a"]));
    fixture.produced(1).await;
    let writes = fixture.world.producer().writes();
    fixture.world.producer().ack_all();
    fixture.until("a write", |world| world.producer().writes() > writes).await;
    assert_eq!(fixture.world.walsender().confirmed(), 16, "not before it is written");
    fixture.world.producer().ack_write(&fixture.world.kafka);
    fixture.world.producer().break_down(failure(Code::DeliveryFailed));
    fixture.until("the end of the session", |world| world.walsender().is_left()).await;
    assert_eq!(fixture.world.walsender().confirmed(), 108);
}

/// A streaming stage whose witness is written up to the slot's position.
pub(super) async fn witnessed_fixture() -> Fixture {
    let mut fixture = Fixture::begun(witnessed());
    fixture.until("a stream", |world| world.postgres.walsenders() == 1).await;
    fixture.world.walsender().send(&described());
    fixture.world.walsender().send(&transaction(8, &["warm-up"]));
    let mut written = 0;
    let confirmed = |world: &mut World| {
        if world.producer().in_flight() > 0 {
            world.producer().ack_all();
        }
        if world.producer().writes() > written {
            written = world.producer().writes();
            world.producer().ack_write(&world.kafka);
        }
        world.walsender().confirmed() == 16
    };
    fixture.until("the first confirmation", confirmed).await;
    fixture
}

/// Acknowledgements, which empty the window, come first, so that the same turn fills it again.
#[tokio::test(start_paused = true)]
async fn acknowledgements_make_room_for_the_frames_of_the_same_turn() {
    let mut fixture = Fixture::full().await;
    let read = fixture.read();
    fixture.world.producer().ack_all();
    fixture.shell.apply(read);
    assert_eq!(fixture.world.producer().keys().last().unwrap(), "e");
}

/// A crash in between would repeat what both windows hold.
#[tokio::test(start_paused = true)]
async fn the_status_update_that_moves_the_window_is_sent_before_the_window_is_filled_again() {
    let mut fixture = Fixture::full().await;
    let (confirmed, walsender) = (Arc::new(Mutex::new(0)), fixture.world.walsender());
    let noted = Arc::clone(&confirmed);
    fixture.world.producer().on_produce(move || *noted.lock().unwrap() = walsender.confirmed());
    fixture.world.producer().ack_all();
    fixture.produced(1).await;
    assert_eq!(*confirmed.lock().unwrap(), 108);
}

/// The tick sees what the frames before it have changed.
#[tokio::test(start_paused = true)]
async fn a_status_update_that_is_due_includes_the_frames_of_its_turn() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.walsender().send(&[wire::keepalive(1_000)]);
    let read = fixture.read();
    tokio::time::advance(WAL_SENDER_TIMEOUT / 3).await;
    fixture.shell.apply(read);
    fixture.shell.act();
    assert_eq!(fixture.world.walsender().confirmed(), 1_000);
}

/// Of all that is ready at the same time, frames in the buffer come last.
#[tokio::test(start_paused = true)]
async fn events_that_free_the_window_come_before_frames_that_fill_it() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.walsender().send(&[wire::begin(100, 0), row("a"), foreign_row()]);
    fixture.read();
    fixture.world.walsender().send(&[foreign_row()]);
    assert!(
        matches!(fixture.shell.next_event().await, ShellEvent::Due),
        "frames are handed on at once"
    );

    // From the last to the first; each comes before all that are ready already.
    let update = fixture.shell.stream.as_mut().unwrap();
    update.queue_status(&[b'r'; crate::postgres::STATUS_UPDATE_BYTES]);
    assert!(matches!(fixture.shell.next_event().await, ShellEvent::Written(Ok(()))));
    fixture.shell.jobs.spawn(async { Done::Aborted });
    tokio::task::yield_now().await;
    assert!(matches!(fixture.shell.next_event().await, ShellEvent::Job(_)));
    fixture.shell.jobs.spawn(async { Done::Aborted });
    tokio::task::yield_now().await;
    fixture.world.monitor.try_send(MonitorEvent::ServerStopping).unwrap();
    assert!(matches!(fixture.shell.next_event().await, ShellEvent::Monitor(_)));
    fixture.world.monitor.try_send(MonitorEvent::ServerStopping).unwrap();
    fixture.world.shut_down();
    assert!(matches!(fixture.shell.next_event().await, ShellEvent::Shutdown));
    fixture.world.producer().break_down(failure(Code::DeliveryFailed));
    assert!(matches!(fixture.shell.next_event().await, ShellEvent::Acks));
}

/// One that is due comes before frames, too.
#[tokio::test(start_paused = true)]
async fn a_deadline_comes_before_frames() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.walsender().send(&transaction(100, &["a"]));
    let patience = REPORT_INTERVAL + Duration::from_millis(1);
    tokio::time::advance(patience).await;
    assert!(matches!(fixture.shell.next_event().await, ShellEvent::Due));
    fixture.shell.report_if_due();
    assert!(
        matches!(fixture.shell.next_event().await, ShellEvent::Wal(Ok(_))),
        "and then it is read"
    );
}

/// Reports come in batches; between two batches, frames are handed on.
#[tokio::test(start_paused = true)]
async fn a_flood_of_acknowledgements_does_not_keep_frames_waiting() {
    let window = Window { events: 1_000, bytes: 1 << 20 };
    let mut fixture = Fixture::streaming(RelaySettings { window, ..settings() }).await;
    for (count, at) in (1..).zip((100..1_000).step_by(100)) {
        fixture.world.walsender().send(&transaction(at, &["a"]));
        let taken = |world: &mut World| world.producer().keys().len() == 1 + count;
        fixture.until("the row", taken).await;
        fixture.world.producer().ack_later();
    }
    fixture.world.walsender().send(&transaction(1_000, &["z"]));
    fixture.read();
    fixture.world.producer().report();
    fixture.shell.turn().await;
    assert_eq!(fixture.world.producer().keys().last().unwrap(), "z");
    assert_ne!(fixture.confirmed(), 908, "although there are more acknowledgements to come");
}
