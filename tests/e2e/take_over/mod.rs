//! From a real Debezium on Kafka Connect to the router on the same slot, and back, while
//! applications write 1,000 events a second: nothing is lost, and no more comes twice than what had
//! been delivered past the slot's position.
//!
//! `scripts/test.sh --debezium` runs these scenarios, because they need the jars of Debezium.

mod connector;
mod hand_over;

use e2e::{SHORT_DEADLINE, SLOT};
use hand_over::HandOver;
use testbed::debezium::ConnectorState;

/// As the page about Debezium says it: every step is checked before the next.
#[tokio::test]
#[ignore = "needs Debezium: scripts/test.sh --debezium"]
async fn a_stopped_connector_hands_over_and_gets_back_its_slot_without_a_loss() {
    let mut scene = HandOver::start().await.unwrap();
    scene.check("--take-over", 1, &["connector: to do", "slot: to do"]).await.unwrap();
    scene.connector.put("stop").await.unwrap();
    scene.connector.wait(&ConnectorState::Stopped).await.unwrap();
    let delivered = scene.interrupted().await.unwrap();
    scene.check("--take-over", 1, &["connector: ok", "slot: ok", "witness: to do"]).await.unwrap();
    scene.command(&["setup", "--apply"]).await.unwrap();
    scene.command(&["accept", "--yes"]).await.unwrap();
    let twice = scene.check("--take-over", 0, &["witness: ok"]).await.unwrap();
    scene.fixture.restart().await.unwrap();
    scene.written(3_000).await.unwrap();

    scene.check("--give-back", 1, &["slot: to do"]).await.unwrap();
    scene.fixture.router.sigterm().unwrap();
    let status = scene.fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(0));
    scene.interrupted().await.unwrap();
    scene.check("--give-back", 1, &["offsets: to do", "connector: to do"]).await.unwrap();
    scene.connector.forget_offsets().await.unwrap();
    scene.connector.configure("snapshot.mode", "no_data").await.unwrap();
    let again = scene.check("--give-back", 0, &["position: ok"]).await.unwrap();
    scene.connector.put("resume").await.unwrap();
    scene.connector.wait(&ConnectorState::Running).await.unwrap();
    scene.written(3_000).await.unwrap();

    let duplicates = scene.finish().await.unwrap();
    assert_eq!(twice, Some(duplicates[1]), "what was announced is not what came twice");
    assert!(duplicates[1] <= delivered, "{duplicates:?}, {delivered} were not flushed");
    assert_eq!((duplicates[0], again, duplicates[2]), (0, Some(0), 0), "{duplicates:?}");
}

/// Neither side has the time to say how far it is: both are killed.
#[tokio::test]
#[ignore = "needs Debezium: scripts/test.sh --debezium"]
async fn a_killed_worker_and_a_killed_router_repeat_only_what_was_not_flushed() {
    let mut scene = HandOver::start().await.unwrap();
    scene.connector.worker.kill9().await.unwrap();
    let by_connector = scene.interrupted().await.unwrap();
    scene.check("--take-over", 1, &["connector: not checked", "slot: ok"]).await.unwrap();
    scene.command(&["setup", "--apply"]).await.unwrap();
    scene.command(&["accept", "--yes"]).await.unwrap();
    scene.fixture.restart().await.unwrap();
    scene.written(3_000).await.unwrap();

    scene.fixture.router.kill9().await.unwrap();
    let by_router = scene.interrupted().await.unwrap();
    scene.connector.worker.start_again().unwrap();
    scene.connector.worker.wait_ready().await.unwrap();
    scene.check("--give-back", 1, &["offsets: to do", "connector: not checked"]).await.unwrap();
    scene.connector.create("STOPPED").await.unwrap();
    scene.connector.configure("snapshot.mode", "no_data").await.unwrap();
    let twice = scene.check("--give-back", 0, &["offsets: ok", "connector: ok"]).await.unwrap();
    scene.connector.put("resume").await.unwrap();
    scene.connector.wait(&ConnectorState::Running).await.unwrap();
    scene.written(3_000).await.unwrap();

    let duplicates = scene.finish().await.unwrap();
    assert_eq!(duplicates[0], 0, "{duplicates:?}");
    assert!(duplicates[1] > 0, "the connector had flushed everything: {duplicates:?}");
    assert!(duplicates[1] <= by_connector, "{duplicates:?}, {by_connector} were not flushed");
    assert!(duplicates[2] <= by_router, "{duplicates:?}, {by_router} were not confirmed");
    assert!(twice.is_some_and(|twice| twice <= duplicates[2]), "{twice:?}, {duplicates:?}");
}

/// A slot that somebody has moved does not send what lies before it, and the connector's offset
/// shows that.
#[tokio::test]
#[ignore = "needs Debezium: scripts/test.sh --debezium"]
async fn a_slot_that_was_moved_past_the_connectors_offset_is_reported() {
    let mut scene = HandOver::start().await.unwrap();
    scene.connector.put("stop").await.unwrap();
    scene.connector.wait(&ConnectorState::Stopped).await.unwrap();
    scene.interrupted().await.unwrap();
    let session = scene.fixture.session().await.unwrap();
    let advance = format!("SELECT pg_replication_slot_advance('{SLOT}', pg_current_wal_lsn())");
    session.batch_execute(&advance).await.unwrap();
    scene.check("--take-over", 1, &["slot: ok", "position: failed"]).await.unwrap();
}
