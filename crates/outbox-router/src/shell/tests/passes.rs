//! Passes are bounded. Their bound is a time, so these tests run in real time.

use super::{
    walsender::{Ends, framed},
    *,
};

/// More than a pass can hand on: some hundred thousand rows of another table, which use no window.
const BACKLOG: usize = 16 << 20;

fn backlog() -> Vec<u8> {
    let row = framed(&[wire::insert(1, OTHER, &[])]);
    row.repeat(64 * 1024 / row.len())
}

/// Streaming, with records on their way and a backlog in the buffer.
async fn behind(keys: &[&str]) -> Fixture {
    let mut fixture = Fixture::begun(settings());
    fixture.world.postgres.set_ends(Ends { read_buffer: 2 * BACKLOG, is_narrow: false });
    fixture.stream().await;
    fixture.world.walsender().send(&transaction(100, keys));
    fixture.produced(keys.len()).await;
    fixture.world.walsender().send(&[wire::begin(200, 0)]);
    let (chunk, mut filled) = (backlog(), 0);
    while filled < BACKLOG {
        fixture.world.walsender().send_bytes(&chunk);
        fixture.read();
        filled += chunk.len();
    }
    fixture
}

fn rows_ignored(fixture: &Fixture) -> u64 {
    fixture.shell.relay.snapshot(fixture.shell.clock.now().at).rows_ignored.total()
}

#[tokio::test]
async fn a_pass_over_rows_that_use_no_window_is_limited_in_time() {
    let mut fixture = behind(&[]).await;
    fixture.shell.pass();
    assert!(rows_ignored(&fixture) > 0);
    let next = fixture.shell.stream.as_mut().unwrap().peek();
    assert!(matches!(next, Ok(Some(_))), "it took {} rows at once", rows_ignored(&fixture));
}

/// Frames that a pass leaves are handed on by the next turn, and other events are handled in
/// between.
#[tokio::test]
async fn acknowledgements_are_taken_and_confirmed_within_a_backlog() {
    let mut fixture = behind(&["a"]).await;
    assert_eq!(fixture.shell.turn().await, None);
    fixture.world.producer().ack_all();
    fixture.until("its confirmation", |world| world.walsender().confirmed() == 108).await;
    let next = fixture.shell.stream.as_mut().unwrap().peek();
    assert!(matches!(next, Ok(Some(_))), "{} rows had come before", rows_ignored(&fixture));
}
