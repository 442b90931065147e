//! Nothing listens when the router starts: it keeps trying, is not ready, and streams when it can.

use e2e::{SOON, Stage};
use testbed::kafka;
use testbed::postgres::ShutdownMode;

use super::{DEADLINE, write};

#[tokio::test]
async fn a_router_started_before_postgresql_waits_for_it() {
    let mut stage = Stage::builder().prepare().await.unwrap();
    stage.postgres.stop(ShutdownMode::Fast, SOON).await.unwrap();
    stage.router.start_again().unwrap();
    let tried = |status: &serde_json::Value| !status["reason"].is_null();
    let status = stage.router.wait_status("a first attempt", SOON, tried).await.unwrap();
    assert_eq!((&status["state"], &status["blame"]), (&"starting".into(), &"postgresql".into()));
    assert_eq!(stage.router.get("/readyz").await.unwrap().status, 503);
    assert_eq!(stage.router.get("/livez").await.unwrap().status, 200);

    stage.postgres.start_again().await.unwrap();
    stage.router.wait_state("streaming", SOON).await.unwrap();
    assert_eq!(stage.router.get("/readyz").await.unwrap().status, 200);
    write(&mut stage, 100).await.unwrap();
    stage.wait_delivered(DEADLINE).await.unwrap();
    assert_eq!(stage.verdict().await.unwrap().clean().unwrap().duplicates, 0);
}

#[tokio::test]
async fn a_router_started_before_kafka_waits_for_it() {
    let mut stage =
        Stage::builder().own_kafka(kafka::KafkaOptions::default()).prepare().await.unwrap();
    stage.kafka.mine().unwrap().stop().await.unwrap();
    write(&mut stage, 100).await.unwrap();
    stage.router.start_again().unwrap();
    // It has PostgreSQL and no Kafka: connected, and nothing can be acknowledged.
    let status = stage.router.wait_state("blocked", SOON).await.unwrap();
    assert_eq!(status["blame"], "kafka");
    assert_eq!(stage.router.get("/readyz").await.unwrap().status, 503);
    let confirmed = stage.confirmed().await.unwrap();

    stage.kafka.mine().unwrap().start_again().await.unwrap();
    stage.wait_delivered(DEADLINE).await.unwrap();
    stage.router.wait_state("streaming", SOON).await.unwrap();
    stage.wait_confirmed(SOON).await.unwrap();
    assert!(stage.confirmed().await.unwrap() > confirmed);
    assert_eq!(stage.verdict().await.unwrap().clean().unwrap().duplicates, 0);
}
