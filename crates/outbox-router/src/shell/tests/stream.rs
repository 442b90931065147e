//! The socket: rows that take long to arrive, status updates that take long to send.

use super::{
    walsender::{Ends, framed},
    *,
};
use crate::postgres::Output;

/// No frame shows that the server is alive before the row is complete.
#[tokio::test(start_paused = true)]
async fn a_row_that_takes_a_minute_to_arrive_keeps_the_session() {
    let mut stage = Stage::streaming(settings()).await;
    let payload = "x".repeat(1_000);
    let frames = [wire::begin(100, 0), row_of("order", "a", &payload), wire::commit(100, 108)];
    for bytes in framed(&frames).chunks(20) {
        stage.world.walsender().send_bytes(bytes);
        stage.pass_time(Duration::from_secs(1)).await;
    }
    stage.produced(1).await;
    stage.world.producer().ack_all();
    stage.until("its confirmation", |world| world.walsender().told() == 108).await;
    assert_eq!(stage.world.postgres.walsenders(), 1, "on the same connection");
}

/// A server that sends nothing at all is given up.
#[tokio::test(start_paused = true)]
async fn a_row_whose_rest_never_comes_ends_the_session() {
    let mut stage = Stage::streaming(settings()).await;
    let frames = framed(&[wire::begin(100, 0), row("a")]);
    stage.world.walsender().send_bytes(&frames[..frames.len() - 1]);
    stage.until("another stream", |world| world.postgres.walsenders() == 2).await;
    assert_eq!(stage.world.producer().keys(), ["warm-up"]);
}

/// Back-pressure stops reading, not writing: queued bytes are written as soon as there is room.
#[tokio::test(start_paused = true)]
async fn a_status_update_that_found_the_socket_full_is_sent_while_reading_is_paused() {
    let mut stage = Stage::begun(settings());
    stage.world.postgres.set_ends(Ends { read_buffer: 64 * 1024, is_narrow: true });
    stage.stream().await;
    stage.world.walsender().send(&transaction(100, &["a", "b", "c"]));
    stage.produced(3).await;
    stage.world.producer().ack_all();
    let mut at = 1_000;
    while stage.shell.stream.as_ref().unwrap().output() == Output::Empty {
        stage.world.walsender().send(&[wire::keepalive(at)]);
        stage.pass_time(Duration::from_millis(500)).await;
        at += 8;
        assert!(at < 10_000, "it has room for everything");
    }
    stage.world.walsender().send(&transaction(at, &["a", "b", "c", "d"]));
    stage.produced(4).await;
    assert!(!stage.shell.relay.wants_wal(), "the window is full");
    stage.pass_time(Duration::from_secs(1)).await;
    let before = Instant::now();
    let last = stage.confirmed();
    stage.until("the update", |world| world.walsender().told() == last).await;
    assert!(before.elapsed() < Duration::from_millis(10), "as soon as there was room");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_is_replaced() {
    let mut stage = Stage::streaming(settings()).await;
    stage.world.walsender().hang_up();
    stage.until("another stream", |world| world.postgres.walsenders() == 2).await;
    stage
        .until("news of it", |world| world.reports.borrow().snapshot.reconnects.postgres == 1)
        .await;
    assert_eq!(stage.state(), (State::Streaming, None));
}
