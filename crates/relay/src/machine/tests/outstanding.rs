//! What the core reports of events that are not acknowledged, and of pauses of the socket.

use super::*;
use crate::PauseReason;

/// The commit time of the transactions of `wire::begin`.
fn oldest(script: &Script) -> Option<PgTimestamp> {
    script.relay.snapshot(script.at).oldest_unacked
}

fn paused(script: &Script, reason: PauseReason) -> Duration {
    let at = PauseReason::ALL.iter().position(|known| *known == reason).unwrap();
    script.relay.snapshot(script.at).paused[at]
}

#[test]
fn the_oldest_unacknowledged_event_outlives_the_connection_until_it_is_acknowledged() {
    let mut script = Script::streaming();
    assert_eq!(oldest(&script), None);
    script.transaction(100, &["a"]);
    let committed = oldest(&script);
    assert!(committed.is_some());
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(oldest(&script), committed, "nobody knows better while there is no connection");
    script.actions();
    script.run_for(Duration::from_secs(1));
    script.connect();
    assert_eq!(oldest(&script), committed, "it has not come again yet");
    script.transaction(100, &["a"]);
    assert_eq!(oldest(&script), committed);
    script.settle();
    assert_eq!(oldest(&script), None);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(oldest(&script), None, "it was acknowledged");
}

#[test]
fn a_row_that_is_waited_at_is_not_acknowledged_and_pauses_the_socket() {
    let mut script = Script::streaming();
    script.begin(100);
    assert_eq!(oldest(&script), None, "the transaction has no event yet");
    let unroutable = row_of("no topic name!", "a", "{}");
    assert_eq!(script.frame(&unroutable), FrameOutcome::NotTaken);
    script.handle(Input::Tick);
    assert!(oldest(&script).is_some());
    script.run_for(Duration::from_secs(5));
    assert_eq!(paused(&script, PauseReason::Row), Duration::from_secs(5));
    assert_eq!(paused(&script, PauseReason::Window), Duration::ZERO);
}

#[test]
fn a_full_window_pauses_the_socket_until_an_acknowledgement() {
    let mut script = Script::streaming();
    for n in 1..WINDOW.events {
        script.transaction(100 * n, &["a"]);
    }
    script.begin(1_000);
    script.take(&row("a"));
    assert!(!script.relay.wants_wal());
    script.handle(Input::Tick);
    script.run_for(Duration::from_secs(2));
    assert_eq!(paused(&script, PauseReason::Window), Duration::from_secs(2));
}
