//! Topics that are missing, or whose limit is smaller than a record. The cause lies in Kafka, so
//! the router continues by itself when the cause is gone.

use e2e::{Fixture, SHORT_DEADLINE, text};
use serde_json::Value;
use testbed::load::{Preset, Schema};

use super::{
    GOOD, Payload, RECHECK_DEADLINE, Row, expect_confirmed, expect_ids, expect_reported, insert,
};

#[tokio::test]
async fn a_missing_topic_blocks_the_router_until_it_is_created() {
    let schema = Schema::new(Preset::Default).types(&["order", "invoice"]);
    let mut fixture =
        Fixture::builder().schema(schema).without_topics().partitions(1).prepare().await.unwrap();
    let [orders, invoices] = [fixture.topics[0].clone(), fixture.topics[1].clone()];
    fixture.kafka.delete_topic(&invoices).await.unwrap();
    fixture.restart().await.unwrap();
    let session = fixture.session().await.unwrap();
    let before = insert(&session, GOOD).await;
    let stuck = insert(&session, Row { aggregate_type: Some("invoice"), ..GOOD }).await;
    let behind = insert(&session, GOOD).await;

    let status = expect_reported(&mut fixture.router, "blocked", "K010", SHORT_DEADLINE).await;
    let reason = status["reason"].to_string();
    assert!(reason.contains(&invoices), "the reason does not name the topic: {reason}");
    assert_eq!(status["blame"], "kafka", "{status}");
    expect_ids(&fixture, &orders, std::slice::from_ref(&before)).await;
    let samples = |status: &Value| status["totals"]["errors"]["K010"].as_u64();
    let often = |status: &Value| samples(status).is_some_and(|samples| samples >= 4);
    fixture.router.wait_status("four lookups of the topic", SHORT_DEADLINE, often).await.unwrap();

    fixture.kafka.create_topic(&invoices, 1, &[]).await.unwrap();
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    expect_ids(&fixture, &invoices, &[stuck]).await;
    expect_ids(&fixture, &orders, &[before, behind]).await;
    let log = fixture.router.log();
    let lines = log.lines().filter(|line| line.contains("K010")).count();
    assert!(lines <= 2, "{lines} lines about one topic: {log}");
}

#[tokio::test]
async fn a_missing_topic_is_created_if_create_topics_is_set() {
    let mut fixture = Fixture::builder()
        .without_topics()
        .set("kafka.create_topics.partitions", 2)
        .set("kafka.create_topics.replication_factor", 1)
        .start()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    let id = insert(&session, GOOD).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let topic = fixture.topics[0].clone();
    assert_eq!(fixture.kafka.end_offsets(&topic).await.unwrap().len(), 2);
    expect_ids(&fixture, &topic, &[id]).await;
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
}

/// Kafka takes no topic whose name differs from another's in '.' and '_' alone. That is the row's
/// fault, so it may become a dead letter.
#[tokio::test]
async fn a_topic_that_collides_with_another_one_blocks_its_row() {
    let builder = Fixture::builder()
        .set("kafka.create_topics.partitions", 1)
        .set("kafka.create_topics.replication_factor", 1);
    let mut fixture = builder.start().await.unwrap();
    let prefix = fixture.mapping.topic_prefix.clone();
    let [taken, wanted] = ["a_b", "a.b"].map(|name| format!("{prefix}{name}"));
    fixture.kafka.create_topic(&taken, 1, &[]).await.unwrap();
    let session = fixture.session().await.unwrap();
    let stuck = insert(&session, Row { aggregate_type: Some("a.b"), ..GOOD }).await;
    let behind = insert(&session, GOOD).await;
    let status = expect_reported(&mut fixture.router, "failed", "R003", SHORT_DEADLINE).await;
    let reason = status["reason"].to_string();
    assert!(reason.contains("collides with") && reason.contains(&stuck), "{reason}");
    fixture.kafka.delete_topic(&taken).await.unwrap();
    fixture.router.wait_state("streaming", RECHECK_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    expect_ids(&fixture, &wanted, &[stuck]).await;
    let orders = fixture.topics[0].clone();
    expect_ids(&fixture, &orders, &[behind]).await;
}

/// Without compression the router knows that a record is too large before it produces it. With
/// compression only the broker knows.
async fn expect_waits_for_a_larger_limit(compression: &str) {
    let mut fixture = Fixture::builder()
        .without_topics()
        .set("kafka.properties.\"compression.type\"", compression)
        .prepare()
        .await
        .unwrap();
    let topic = fixture.topics.first().unwrap().clone();
    fixture.kafka.create_topic(&topic, 1, &[("max.message.bytes", "20000")]).await.unwrap();
    fixture.restart().await.unwrap();
    let session = fixture.session().await.unwrap();
    let before = insert(&session, GOOD).await;
    let settled = fixture.postgres.current_wal_lsn().await.unwrap();
    let large = insert(&session, Row { payload: Payload::Noise(100_000), ..GOOD }).await;
    let behind = insert(&session, GOOD).await;

    let status = expect_reported(&mut fixture.router, "failed", "K012", SHORT_DEADLINE).await;
    assert!(
        text(&status, "/reason/message").unwrap().contains(&topic),
        "the message does not name the topic: {status}"
    );
    let hint = text(&status, "/reason/hint").unwrap();
    assert!(hint.contains("max.message.bytes"), "{hint}");
    assert!(text(&status, "/reason/lsn").is_some(), "{status}");
    // Although the broker's refusal ends a session, what came before is not sent again.
    expect_confirmed(&fixture, settled).await;
    expect_ids(&fixture, &topic, std::slice::from_ref(&before)).await;

    fixture.kafka.set_topic(&topic, &[("max.message.bytes", "1000000")]).await.unwrap();
    fixture.router.wait_state("streaming", RECHECK_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    expect_ids(&fixture, &topic, &[before, large, behind]).await;
}

#[tokio::test]
async fn a_record_larger_than_the_topics_limit_waits_until_the_limit_is_raised() {
    tokio::join!(expect_waits_for_a_larger_limit("none"), expect_waits_for_a_larger_limit("lz4"));
}
