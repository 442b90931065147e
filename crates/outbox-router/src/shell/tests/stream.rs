//! The socket: rows that take long to arrive, status updates that take long to send.

use super::{
    walsender::{Ends, framed},
    *,
};
use crate::postgres::Output;

/// No frame shows that the server is alive before the row is complete.
#[tokio::test(start_paused = true)]
async fn a_row_that_takes_a_minute_to_arrive_keeps_the_session() {
    let mut fixture = Fixture::streaming(settings()).await;
    let payload = "x".repeat(1_000);
    let frames = [wire::begin(100, 0), row_of("order", "a", &payload), wire::commit(100, 108)];
    for bytes in framed(&frames).chunks(20) {
        fixture.world.walsender().send_bytes(bytes);
        fixture.pass_time(Duration::from_secs(1)).await;
    }
    fixture.produced(1).await;
    fixture.world.producer().ack_all();
    fixture.until("its confirmation", |world| world.walsender().confirmed() == 108).await;
    assert_eq!(fixture.world.postgres.walsenders(), 1, "on the same connection");
}

/// A server that sends nothing at all is given up.
#[tokio::test(start_paused = true)]
async fn a_row_whose_rest_never_comes_ends_the_session() {
    let mut fixture = Fixture::streaming(settings()).await;
    let frames = framed(&[wire::begin(100, 0), row("a")]);
    fixture.world.walsender().send_bytes(&frames[..frames.len() - 1]);
    fixture.until("another stream", |world| world.postgres.walsenders() == 2).await;
    assert_eq!(fixture.world.producer().keys(), ["warm-up"]);
}

/// Back-pressure stops reading, not writing: queued bytes are written as soon as there is room.
#[tokio::test(start_paused = true)]
async fn a_status_update_that_found_the_socket_full_is_sent_while_reading_is_paused() {
    let mut fixture = Fixture::begun(settings());
    fixture.world.postgres.set_ends(Ends { read_buffer: 64 * 1024, is_narrow: true });
    fixture.stream().await;
    fixture.world.walsender().send(&transaction(100, &["a", "b", "c"]));
    fixture.produced(3).await;
    fixture.world.producer().ack_all();
    let mut at = 1_000;
    while fixture.shell.stream.as_ref().unwrap().output() == Output::Empty {
        fixture.world.walsender().send(&[wire::keepalive(at)]);
        fixture.pass_time(Duration::from_millis(500)).await;
        at += 8;
        assert!(at < 10_000, "it has room for everything");
    }
    fixture.world.walsender().send(&transaction(at, &["a", "b", "c", "d"]));
    fixture.produced(4).await;
    assert!(!fixture.shell.relay.wants_wal(), "the window is full");
    fixture.pass_time(Duration::from_secs(1)).await;
    let before = Instant::now();
    let last = fixture.confirmed();
    fixture.until("the update", |world| world.walsender().confirmed() == last).await;
    assert!(before.elapsed() < Duration::from_millis(10), "as soon as there was room");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_is_replaced() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.walsender().hang_up();
    fixture.until("another stream", |world| world.postgres.walsenders() == 2).await;
    fixture
        .until("news of it", |world| world.reports.borrow().snapshot.reconnects.postgres == 1)
        .await;
    assert_eq!(fixture.state(), (State::Streaming, None));
}
