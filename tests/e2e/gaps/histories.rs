//! The server that comes back is not the one that went: its slot is gone, or its WAL ends before
//! what was confirmed.

use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE, SLOT, text};
use serde_json::Value;
use testbed::postgres::ShutdownMode;
use tokio::time::sleep;
use tokio_postgres::types::PgLsn;

use super::{
    WITHIN, copy_files, count, expect_nothing_produced, expect_reported, has_interval,
    streaming_fixture, write,
};

/// How a server comes back from files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RestoredServer {
    /// As itself, from a copy of its storage.
    Restored,
    /// As a standby that has become the primary, on a timeline of its own.
    Promoted,
}

#[tokio::test]
async fn a_slot_dropped_while_the_router_was_down_is_a_gap_and_not_recreated() {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    fixture.kill_router().await.unwrap();
    write(&mut fixture, 20).await;
    let session = fixture.session().await.unwrap();
    session.batch_execute(&format!("SELECT pg_drop_replication_slot('{SLOT}')")).await.unwrap();
    write(&mut fixture, 20).await;
    fixture.router.start_again().unwrap();
    let status = fixture.router.wait_state("failed", WITHIN).await.unwrap();
    assert_eq!(status["reason"]["code"], "P010", "{status}");
    assert!(status["reason"]["hint"].as_str().unwrap().contains("outbox-router setup --apply"));
    expect_reported(&fixture, &["P010"]).await;
    expect_nothing_produced(&mut fixture, &["P010"]).await;
    assert_eq!(count(&session, "pg_replication_slots").await, 0, "the router created a slot");
}

#[tokio::test]
async fn a_promoted_standby_without_the_slot_is_a_gap() {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    // What a standby has of its primary: everything but the slots, which are not in the WAL.
    let slots = fixture.postgres.data_dir().join("pg_replslot");
    std::fs::remove_dir_all(slots.join(SLOT)).unwrap();
    fixture.postgres.start_promoted().await.unwrap();
    let status = fixture.router.wait_state("failed", SHORT_DEADLINE).await.unwrap();
    assert_eq!(status["reason"]["code"], "P010", "{status}");
    expect_reported(&fixture, &["P010"]).await;
    expect_nothing_produced(&mut fixture, &["P010"]).await;
}

/// Rows that are in Kafka and confirmed have never happened in the history of the server that comes
/// back.
async fn expect_another_history(how: RestoredServer, away: Duration) {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    let data = fixture.postgres.data_dir();
    let copy = data.with_extension("copy");
    copy_files(&data, &copy);
    fixture.postgres.start_again().await.unwrap();
    fixture.wait_streaming().await.unwrap();
    write(&mut fixture, 200).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();

    fixture.postgres.kill9().await.unwrap();
    sleep(away).await;
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    match how {
        RestoredServer::Restored => fixture.postgres.start_again().await.unwrap(),
        RestoredServer::Promoted => fixture.postgres.start_promoted().await.unwrap(),
    }
    let stopped = |status: &Value| text(status, "/state") == Some("failed") && has_interval(status);
    let status = fixture
        .router
        .wait_status("failed, with an interval", SHORT_DEADLINE, stopped)
        .await
        .unwrap();
    assert_eq!(text(&status, "/reason/code"), Some("P015"), "{status}");
    let message = text(&status, "/reason/message").unwrap();
    assert!(message.contains("may be in Kafka without being in this database"), "{message}");
    // From the end of one history to the end of the other, and reported once.
    let [from, to]: [PgLsn; 2] = ["from", "to"].map(|end| {
        let lsn = text(&status, &format!("/reason/interval/{end}/lsn")).unwrap();
        assert!(message.contains(lsn), "no {lsn} in {message}");
        lsn.parse().unwrap()
    });
    assert!(from < to, "{status}");
    expect_reported(&fixture, &["P015"]).await;
    expect_nothing_produced(&mut fixture, &["P015"]).await;
    let log = fixture.router.log();
    let errors = log.lines().filter(|line| line.contains("ERROR") && line.contains("P015"));
    assert_eq!(errors.count(), 1, "{log}");
}

#[tokio::test]
async fn a_server_whose_wal_ends_before_the_confirmed_position_is_a_gap() {
    tokio::join!(
        expect_another_history(RestoredServer::Restored, Duration::ZERO),
        expect_another_history(RestoredServer::Promoted, Duration::ZERO)
    );
}

#[tokio::test]
async fn a_server_restored_after_a_long_outage_is_a_gap() {
    // Meanwhile another router may have had the slot, but the WAL of one history never becomes
    // shorter.
    expect_another_history(RestoredServer::Restored, Duration::from_secs(12)).await;
}
