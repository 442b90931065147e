//! The order in which inputs reach the core and actions leave it, within one turn and between
//! turns.

use std::sync::{Arc, Mutex};

use super::*;

/// I3: what was acknowledged before the failure counts as acknowledged.
#[tokio::test(start_paused = true)]
async fn acknowledgements_that_come_with_a_failure_count() {
    let mut stage = Stage::streaming(settings()).await;
    stage.world.walsender().send(&transaction(100, &["a"]));
    stage.produced(1).await;
    stage.world.producer().ack_all();
    stage.world.producer().break_down(failure(Code::DeliveryFailed));
    let left = |world: &mut World| world.walsender().is_left();
    stage.until("the end of the session", left).await;
    assert_eq!(stage.world.walsender().told(), 108, "told before the session ended");
}

/// The same for a position whose write is acknowledged together with the failure.
#[tokio::test(start_paused = true)]
async fn a_written_witness_that_comes_with_a_failure_counts() {
    let mut stage = witnessed_stage().await;
    stage.world.walsender().send(&transaction(100, &["a"]));
    stage.produced(1).await;
    let writes = stage.world.producer().writes();
    stage.world.producer().ack_all();
    stage.until("a write", |world| world.producer().writes() > writes).await;
    assert_eq!(stage.world.walsender().told(), 16, "not before it is written");
    stage.world.producer().ack_write(&stage.world.kafka);
    stage.world.producer().break_down(failure(Code::DeliveryFailed));
    stage.until("the end of the session", |world| world.walsender().is_left()).await;
    assert_eq!(stage.world.walsender().told(), 108);
}

/// A streaming stage whose witness is written up to the slot's position.
pub(super) async fn witnessed_stage() -> Stage {
    let mut stage = Stage::begun(witnessed());
    stage.until("a stream", |world| world.postgres.walsenders() == 1).await;
    stage.world.walsender().send(&described());
    stage.world.walsender().send(&transaction(8, &["warm-up"]));
    let mut written = 0;
    let confirmed = |world: &mut World| {
        if world.producer().in_flight() > 0 {
            world.producer().ack_all();
        }
        if world.producer().writes() > written {
            written = world.producer().writes();
            world.producer().ack_write(&world.kafka);
        }
        world.walsender().told() == 16
    };
    stage.until("the first confirmation", confirmed).await;
    stage
}

/// Acknowledgements, which empty the window, come first, so that the same turn fills it again.
#[tokio::test(start_paused = true)]
async fn acknowledgements_make_room_for_the_frames_of_the_same_turn() {
    let mut stage = Stage::full().await;
    let read = stage.read();
    stage.world.producer().ack_all();
    stage.shell.apply(read);
    assert_eq!(stage.world.producer().keys().last().unwrap(), "e");
}

/// A crash in between would repeat what both windows hold.
#[tokio::test(start_paused = true)]
async fn the_update_that_moves_the_window_leaves_before_the_window_is_filled_again() {
    let mut stage = Stage::full().await;
    let (told, walsender) = (Arc::new(Mutex::new(0)), stage.world.walsender());
    let noted = Arc::clone(&told);
    stage.world.producer().on_produce(move || *noted.lock().unwrap() = walsender.told());
    stage.world.producer().ack_all();
    stage.produced(1).await;
    assert_eq!(*told.lock().unwrap(), 108);
}

/// The tick sees what the frames before it have changed.
#[tokio::test(start_paused = true)]
async fn a_status_update_that_is_due_includes_the_frames_of_its_turn() {
    let mut stage = Stage::streaming(settings()).await;
    stage.world.walsender().send(&[wire::keepalive(1_000)]);
    let read = stage.read();
    tokio::time::advance(WAL_SENDER_TIMEOUT / 3).await;
    stage.shell.apply(read);
    stage.shell.act();
    assert_eq!(stage.world.walsender().told(), 1_000);
}

/// Of all that is ready at the same time, frames in the buffer come last.
#[tokio::test(start_paused = true)]
async fn events_that_free_the_window_come_before_frames_that_fill_it() {
    let mut stage = Stage::streaming(settings()).await;
    stage.world.walsender().send(&[wire::begin(100, 0), row("a"), foreign_row()]);
    stage.read();
    stage.world.walsender().send(&[foreign_row()]);
    assert!(
        matches!(stage.shell.next_event().await, ShellEvent::Due),
        "frames are handed on at once"
    );

    // From the last to the first; each comes before all that are ready already.
    let update = stage.shell.stream.as_mut().unwrap();
    update.queue_status(&[b'r'; crate::postgres::STATUS_UPDATE_BYTES]);
    assert!(matches!(stage.shell.next_event().await, ShellEvent::Written(Ok(()))));
    stage.shell.jobs.spawn(async { Done::Nothing });
    tokio::task::yield_now().await;
    assert!(matches!(stage.shell.next_event().await, ShellEvent::Job(_)));
    stage.shell.jobs.spawn(async { Done::Nothing });
    tokio::task::yield_now().await;
    stage.world.monitor.try_send(MonitorEvent::ServerStopping).unwrap();
    assert!(matches!(stage.shell.next_event().await, ShellEvent::Monitor(_)));
    stage.world.monitor.try_send(MonitorEvent::ServerStopping).unwrap();
    stage.world.shut_down();
    assert!(matches!(stage.shell.next_event().await, ShellEvent::Shutdown));
    stage.world.producer().break_down(failure(Code::DeliveryFailed));
    assert!(matches!(stage.shell.next_event().await, ShellEvent::Acks));
}

/// One that is due comes before frames, too.
#[tokio::test(start_paused = true)]
async fn a_deadline_comes_before_frames() {
    let mut stage = Stage::streaming(settings()).await;
    stage.world.walsender().send(&transaction(100, &["a"]));
    let patience = REPORT_INTERVAL + Duration::from_millis(1);
    tokio::time::advance(patience).await;
    assert!(matches!(stage.shell.next_event().await, ShellEvent::Due));
    stage.shell.report_if_due();
    assert!(
        matches!(stage.shell.next_event().await, ShellEvent::Wal(Ok(_))),
        "and then it is read"
    );
}

/// Reports come in batches; between two batches, frames are handed on.
#[tokio::test(start_paused = true)]
async fn a_flood_of_acknowledgements_does_not_keep_frames_waiting() {
    let window = Window { events: 1_000, bytes: 1 << 20 };
    let mut stage = Stage::streaming(RelaySettings { window, ..settings() }).await;
    for (count, at) in (1..).zip((100..1_000).step_by(100)) {
        stage.world.walsender().send(&transaction(at, &["a"]));
        let taken = |world: &mut World| world.producer().keys().len() == 1 + count;
        stage.until("the row", taken).await;
        stage.world.producer().ack_later();
    }
    stage.world.walsender().send(&transaction(1_000, &["z"]));
    stage.read();
    stage.world.producer().report();
    stage.shell.turn().await;
    assert_eq!(stage.world.producer().keys().last().unwrap(), "z");
    assert_ne!(stage.confirmed(), 908, "although there are more acknowledgements to come");
}
