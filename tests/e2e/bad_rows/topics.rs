//! Topics that are missing or take no record of this size. What stands in the way lies in Kafka, so
//! the router goes on by itself when it is gone.

use e2e::{SOON, Stage, text};
use serde_json::Value;
use testbed::load::{Preset, Schema};

use super::{GOOD, MENDED, Payload, Row, expect_confirmed, expect_ids, expect_told, insert};

#[tokio::test]
async fn a_missing_topic_blocks_until_somebody_makes_it() {
    let schema = Schema::new(Preset::Default).types(&["order", "invoice"]);
    let mut stage =
        Stage::builder().schema(schema).without_topics().partitions(1).prepare().await.unwrap();
    let [orders, invoices] = [stage.topics[0].clone(), stage.topics[1].clone()];
    stage.kafka.delete_topic(&invoices).await.unwrap();
    stage.restart().await.unwrap();
    let session = stage.session().await.unwrap();
    let before = insert(&session, GOOD).await;
    let stuck = insert(&session, Row { aggregate_type: Some("invoice"), ..GOOD }).await;
    let behind = insert(&session, GOOD).await;

    let status = expect_told(&mut stage.router, "blocked", "K010", SOON).await;
    let reason = status["reason"].to_string();
    assert!(reason.contains(&invoices), "which topic? {reason}");
    assert_eq!(status["blame"], "kafka", "{status}");
    expect_ids(&stage, &orders, std::slice::from_ref(&before)).await;
    let looks = |status: &Value| status["totals"]["errors"]["K010"].as_u64();
    let often = |status: &Value| looks(status).is_some_and(|looks| looks >= 4);
    stage.router.wait_status("four looks for the topic", SOON, often).await.unwrap();

    stage.kafka.create_topic(&invoices, 1, &[]).await.unwrap();
    stage.router.wait_state("streaming", SOON).await.unwrap();
    stage.wait_confirmed(SOON).await.unwrap();
    expect_ids(&stage, &invoices, &[stuck]).await;
    expect_ids(&stage, &orders, &[before, behind]).await;
    let log = stage.router.log();
    let said = log.lines().filter(|line| line.contains("K010")).count();
    assert!(said <= 2, "{said} lines about one topic: {log}");
}

#[tokio::test]
async fn a_missing_topic_is_made_where_the_configuration_says_so() {
    let mut stage = Stage::builder()
        .without_topics()
        .set("kafka.create_topics.partitions", 2)
        .set("kafka.create_topics.replication_factor", 1)
        .start()
        .await
        .unwrap();
    let session = stage.session().await.unwrap();
    let id = insert(&session, GOOD).await;
    stage.wait_confirmed(SOON).await.unwrap();
    let topic = stage.topics[0].clone();
    assert_eq!(stage.kafka.end_offsets(&topic).await.unwrap().len(), 2);
    expect_ids(&stage, &topic, &[id]).await;
    stage.router.wait_state("streaming", SOON).await.unwrap();
}

/// Without compression the router knows that a record is too large before it produces it; with it,
/// the broker alone can tell.
async fn expect_room_is_waited_for(compression: &str) {
    let mut stage = Stage::builder()
        .without_topics()
        .set("kafka.properties.\"compression.type\"", compression)
        .prepare()
        .await
        .unwrap();
    let topic = stage.topics.first().unwrap().clone();
    stage.kafka.create_topic(&topic, 1, &[("max.message.bytes", "20000")]).await.unwrap();
    stage.restart().await.unwrap();
    let session = stage.session().await.unwrap();
    let before = insert(&session, GOOD).await;
    let settled = stage.postgres.current_wal_lsn().await.unwrap();
    let large = insert(&session, Row { payload: Payload::Noise(100_000), ..GOOD }).await;
    let behind = insert(&session, GOOD).await;

    let status = expect_told(&mut stage.router, "failed", "K012", SOON).await;
    assert!(text(&status, "/reason/message").unwrap().contains(&topic), "which topic? {status}");
    let hint = text(&status, "/reason/hint").unwrap();
    assert!(hint.contains("max.message.bytes"), "{hint}");
    assert!(text(&status, "/reason/lsn").is_some(), "{status}");
    // Although the broker's refusal ends a session, what came before is not sent again.
    expect_confirmed(&stage, settled).await;
    expect_ids(&stage, &topic, std::slice::from_ref(&before)).await;

    stage.kafka.set_topic(&topic, &[("max.message.bytes", "1000000")]).await.unwrap();
    stage.router.wait_state("streaming", MENDED).await.unwrap();
    stage.wait_confirmed(SOON).await.unwrap();
    expect_ids(&stage, &topic, &[before, large, behind]).await;
}

#[tokio::test]
async fn a_record_above_what_its_topic_takes_waits_until_the_topic_takes_it() {
    tokio::join!(expect_room_is_waited_for("none"), expect_room_is_waited_for("lz4"));
}
