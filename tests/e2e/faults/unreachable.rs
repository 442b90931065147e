//! Nothing listens when the router starts: it keeps trying, is not ready, and streams when it can.

use e2e::{Fixture, SHORT_DEADLINE};
use testbed::kafka::KafkaOptions;
use testbed::postgres::ShutdownMode;

use super::{DEADLINE, write};

#[tokio::test]
async fn a_router_started_before_postgresql_waits_for_it() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    fixture.router.start_again().unwrap();
    let tried = |status: &serde_json::Value| !status["reason"].is_null();
    let status =
        fixture.router.wait_status("a first attempt", SHORT_DEADLINE, tried).await.unwrap();
    assert_eq!((&status["state"], &status["blame"]), (&"starting".into(), &"postgresql".into()));
    assert_eq!(fixture.router.get("/readyz").await.unwrap().status, 503);
    assert_eq!(fixture.router.get("/livez").await.unwrap().status, 200);

    fixture.postgres.start_again().await.unwrap();
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    assert_eq!(fixture.router.get("/readyz").await.unwrap().status, 200);
    write(&mut fixture, 100).await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    assert_eq!(fixture.check().await.unwrap().clean().unwrap().duplicates, 0);
}

#[tokio::test]
async fn a_router_started_before_kafka_waits_for_it() {
    let mut fixture =
        Fixture::builder().own_kafka(KafkaOptions::default()).prepare().await.unwrap();
    fixture.kafka.owned().unwrap().stop().await.unwrap();
    write(&mut fixture, 100).await.unwrap();
    fixture.router.start_again().unwrap();
    // It has PostgreSQL and no Kafka: connected, and nothing can be acknowledged.
    let status = fixture.router.wait_state("blocked", SHORT_DEADLINE).await.unwrap();
    assert_eq!(status["blame"], "kafka");
    assert_eq!(fixture.router.get("/readyz").await.unwrap().status, 503);
    let confirmed = fixture.confirmed().await.unwrap();

    fixture.kafka.owned().unwrap().start_again().await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert!(fixture.confirmed().await.unwrap() > confirmed);
    assert_eq!(fixture.check().await.unwrap().clean().unwrap().duplicates, 0);
}
