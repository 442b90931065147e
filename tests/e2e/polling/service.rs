//! What systemd hears of a router that polls.

use std::time::Duration;

use e2e::SHORT_DEADLINE;
use testbed::postgres::ShutdownMode;

use super::{COLUMNS, polling, prepared};
use crate::service::Manager;

#[tokio::test]
async fn systemd_hears_of_the_start_when_rows_are_polled_and_of_the_stop() {
    let mut fixture = prepared(polling(), COLUMNS).await;
    let mut manager = Manager::listen(&mut fixture.router);
    fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    fixture.router.start_again().unwrap();

    // PostgreSQL is not there: the router says so, is alive, and has not started yet.
    let waiting = manager.wait_for("STATUS=blocked: ").await;
    manager.hear_for(Duration::from_secs(4)).await;
    let signs = manager.heard.iter().filter(|line| *line == "WATCHDOG=1").count();
    assert!(signs >= 2, "{:?}", manager.heard);
    assert!(!waiting.iter().chain(&manager.heard).any(|line| line == "READY=1"));

    fixture.postgres.start_again().await.unwrap();
    manager.wait_for("READY=1").await;
    let line = manager.wait_for("STATUS=ok: rows flow, 0 rows pending, ").await;
    assert!(line.iter().any(|line| line.ends_with(" events/s")), "{line:?}");

    fixture.router.sigterm().unwrap();
    manager.wait_for("STOPPING=1").await;
    let status = fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(0));
}
