//! What happened while no router ran. Nothing is left of it in memory: what the state topic holds, the slot and the
//! server's history have to tell it, also when everything looks well again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::{SLOT, SOON, Stage, text};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Message, TopicPartitionList};
use serde_json::Value;
use testbed::kafka;
use testbed::postgres::Stop;
use tokio_postgres::types::PgLsn;

use super::{expect_told, flowing, has_interval, write};

/// Rows that nobody sends any more.
const LOST: u64 = 20;

/// The router starts, stops for this gap, and goes on after a person has accepted it, with all that comes later.
async fn expect_stop(stage: &mut Stage, code: &str) -> Value {
    stage.router.start_again().unwrap();
    let is_told = |status: &Value| {
        text(status, "/state") == Some("failed") && text(status, "/reason/code") == Some(code)
    };
    let status = stage.router.wait_status(code, SOON, is_told).await.unwrap();
    assert!(has_interval(&status), "{status}");
    let hint = text(&status, "/reason/hint").unwrap();
    assert!(hint.contains("outbox-router accept"), "{hint}");
    expect_told(stage, &[code]).await;

    // It survives the process: the record is there before anybody restarts.
    stage.kill_router().await.unwrap();
    stage.router.start_again().unwrap();
    stage.router.wait_status(code, SOON, is_told).await.unwrap();
    status
}

fn interval(status: &Value) -> [PgLsn; 2] {
    ["from", "to"].map(|end| {
        let lsn = text(status, &format!("/reason/interval/{end}/lsn"));
        lsn.unwrap_or_else(|| panic!("no {end} of an interval: {status}")).parse().unwrap()
    })
}

/// Everything up to `safe` is in Kafka; after it, rows may be missing.
async fn expect_rows_at_risk(stage: &mut Stage, code: &str, safe: PgLsn) {
    let last = stage.postgres.current_wal_lsn().await.unwrap();
    let status = expect_stop(stage, code).await;
    let [from, to] = interval(&status);
    // No row is missing before `from`, and no missing row is behind `to`.
    assert!(from >= safe && from <= last && to >= from, "{safe} {status}");
}

async fn goes_on_after_acceptance(stage: &mut Stage) {
    stage.accept().await.unwrap();
    write(stage, 10).await;
    stage.wait_confirmed(SOON).await.unwrap();
}

/// A stage without a router, everything confirmed, and where.
async fn abandoned() -> (Stage, PgLsn) {
    let mut stage = flowing(Stage::builder()).await;
    stage.kill_router().await.unwrap();
    let confirmed = stage.confirmed().await.unwrap();
    (stage, confirmed)
}

async fn run(stage: &Stage, sql: &str) {
    stage.session().await.unwrap().batch_execute(sql).await.unwrap();
}

#[tokio::test]
async fn a_slot_that_was_made_again() {
    let (mut stage, confirmed) = abandoned().await;
    write(&mut stage, LOST).await;
    run(&stage, &format!("SELECT pg_drop_replication_slot('{SLOT}')")).await;
    run(&stage, &format!("SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')")).await;
    expect_rows_at_risk(&mut stage, "P014", confirmed).await;
    goes_on_after_acceptance(&mut stage).await;
}

#[tokio::test]
async fn a_slot_that_was_advanced() {
    let (mut stage, confirmed) = abandoned().await;
    write(&mut stage, LOST).await;
    let advance =
        format!("SELECT pg_replication_slot_advance('{SLOT}', pg_current_wal_flush_lsn())");
    run(&stage, &advance).await;
    expect_rows_at_risk(&mut stage, "P014", confirmed).await;
    goes_on_after_acceptance(&mut stage).await;
}

#[tokio::test]
async fn a_publication_that_left_rows_out_and_is_as_before() {
    let (mut stage, confirmed) = abandoned().await;
    run(&stage, "ALTER PUBLICATION outbox_router SET (publish = 'update')").await;
    write(&mut stage, LOST).await;
    run(&stage, "ALTER PUBLICATION outbox_router SET (publish = 'insert')").await;
    let status = expect_stop(&mut stage, "P032").await;
    assert!(interval(&status)[0] >= confirmed || interval(&status)[1] >= confirmed, "{status}");
    goes_on_after_acceptance(&mut stage).await;
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success(), "cp: {status}");
}

/// A copy of the server's storage, as it was when the first hundred events were confirmed; two hundred more came after it.
async fn with_an_older_copy() -> (Stage, PathBuf) {
    let mut stage = flowing(Stage::builder()).await;
    stage.router.sigterm().unwrap();
    stage.router.wait_exit(SOON).await.unwrap();
    stage.postgres.stop(Stop::Fast, SOON).await.unwrap();
    let data = stage.postgres.data_dir();
    let older = data.with_extension("older");
    copy(&data, &older);
    stage.postgres.start_again().await.unwrap();
    stage.restart().await.unwrap();
    write(&mut stage, 200).await;
    stage.wait_confirmed(SOON).await.unwrap();
    stage.kill_router().await.unwrap();
    stage.postgres.kill9().await.unwrap();
    (stage, older)
}

fn replace(stage: &Stage, older: &Path) {
    let data = stage.postgres.data_dir();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(older, &data).unwrap();
}

async fn promote(stage: &mut Stage) {
    stage.postgres.write_file("standby.signal", b"").unwrap();
    stage.postgres.start_again().await.unwrap();
    let session = stage.postgres.connect_to("postgres").await.unwrap();
    let promoted: bool = session.query_one("SELECT pg_promote()", &[]).await.unwrap().get(0);
    assert!(promoted, "the standby did not become the primary");
}

/// Until the server's WAL is longer than it ever was: by its length alone it cannot be told any more.
async fn write_past(stage: &Stage, position: PgLsn) {
    let session = stage.session().await.unwrap();
    while stage.postgres.current_wal_lsn().await.unwrap() <= position {
        session
            .batch_execute(
                "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) \
                 SELECT 'order', 'order-' || i, 'Other' FROM generate_series(1, 300) i",
            )
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_storage_snapshot_on_the_same_timeline() {
    let (mut stage, older) = with_an_older_copy().await;
    replace(&stage, &older);
    stage.postgres.start_again().await.unwrap();
    let [from, to] = interval(&expect_stop(&mut stage, "P015").await);
    assert!(from < to, "{from} {to}");
    goes_on_after_acceptance(&mut stage).await;
}

#[tokio::test]
async fn a_storage_snapshot_that_has_written_past_what_kafka_has() {
    let (mut stage, older) = with_an_older_copy().await;
    replace(&stage, &older);
    stage.postgres.start_again().await.unwrap();
    let known = status_of_the_record(&stage).await;
    write_past(&stage, known).await;
    let [from, to] = interval(&expect_stop(&mut stage, "P015").await);
    assert!(from < to, "{from} {to}");
    goes_on_after_acceptance(&mut stage).await;
}

#[tokio::test]
async fn a_promotion_that_forgot_transactions_with_the_slot_synced() {
    let (mut stage, older) = with_an_older_copy().await;
    replace(&stage, &older);
    promote(&mut stage).await;
    let known = status_of_the_record(&stage).await;
    write_past(&stage, known).await;
    let [from, to] = interval(&expect_stop(&mut stage, "P015").await);
    assert!(from < to, "{from} {to}");
    goes_on_after_acceptance(&mut stage).await;
}

#[tokio::test]
async fn a_promotion_that_forgot_transactions_with_a_slot_made_again() {
    let (mut stage, older) = with_an_older_copy().await;
    std::fs::remove_dir_all(older.join("pg_replslot").join(SLOT)).unwrap();
    replace(&stage, &older);
    promote(&mut stage).await;
    run(&stage, &format!("SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')")).await;
    let [from, to] = interval(&expect_stop(&mut stage, "P015").await);
    assert!(from < to, "{from} {to}");
    goes_on_after_acceptance(&mut stage).await;
}

#[tokio::test]
async fn a_promotion_that_forgot_nothing_is_none_and_loses_nothing() {
    let (mut stage, _) = abandoned().await;
    stage.postgres.stop(Stop::Fast, SOON).await.unwrap();
    promote(&mut stage).await;
    write(&mut stage, LOST).await;
    stage.restart().await.unwrap();
    stage.wait_confirmed(SOON).await.unwrap();
    stage.verdict().await.unwrap().clean().unwrap();
}

#[tokio::test]
async fn another_database_cluster_behind_the_same_name() {
    let (mut stage, _) = abandoned().await;
    // The same names, made by the same hands, and another server.
    let other = Stage::builder().stranger().prepare().await.unwrap();
    let url = other.postgres.url(e2e::ROLE, testbed::postgres::DATABASE);
    stage.config.set("postgres.url", url);
    stage.rewrite_config().unwrap();
    let status = expect_stop(&mut stage, "P015").await;
    let message = text(&status, "/reason/message").unwrap();
    assert!(message.contains("another database cluster"), "{message}");
    let hint = text(&status, "/reason/hint").unwrap();
    assert!(hint.contains("another name"), "{hint}");
}

/// The state topic, record by record, in another cluster, as a mirror or a restored backup leaves it.
fn copy_state(stage: &Stage, to: &str) {
    let topic = text_of(&stage.config.to_string(), "kafka.state_topic");
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", stage.kafka.bootstrap())
        .set("group.id", "mirror")
        .create()
        .unwrap();
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(&topic, 0, rdkafka::Offset::Beginning).unwrap();
    consumer.assign(&partitions).unwrap();
    let (_, end) = consumer.fetch_watermarks(&topic, 0, SOON).unwrap();
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", to).create().unwrap();
    loop {
        let record = consumer.poll(SOON).expect("a record of the state topic").unwrap();
        let copied = BaseRecord::to(&topic)
            .partition(0)
            .key(record.key().unwrap())
            .payload(record.payload().unwrap_or_default());
        producer.send(copied).unwrap();
        if record.offset() + 1 >= end {
            producer.flush(SOON).unwrap();
            return;
        }
    }
}

fn text_of(config: &str, key: &str) -> String {
    let line = config.lines().find(|line| line.trim_start().starts_with(key)).unwrap();
    line.split('"').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn another_kafka_cluster_with_a_copy_of_the_state_topic() {
    let (mut stage, _) = abandoned().await;
    let other = kafka::Kafka::start(kafka::Options::default()).await.unwrap();
    let topic = text_of(&stage.config.to_string(), "kafka.state_topic");
    other.create_topic(&topic, 1, &[("cleanup.policy", "compact")]).await.unwrap();
    copy_state(&stage, &other.bootstrap());
    stage.config.set("kafka.bootstrap_servers", other.bootstrap());
    stage.rewrite_config().unwrap();
    let status = expect_stop(&mut stage, "K021").await;
    let message = text(&status, "/reason/message").unwrap();
    assert!(message.contains("cluster"), "{message}");
}

/// Where the record in Kafka says that everything is acknowledged.
async fn status_of_the_record(stage: &Stage) -> PgLsn {
    let output = stage.router.command(&["status"]).await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let known = told.lines().find_map(|line| {
        line.strip_prefix("record")?.trim().strip_prefix("everything before ")?.split(' ').next()
    });
    known.unwrap_or_else(|| panic!("no record: {told}")).parse().unwrap()
}

/// What is done to a router, or to the servers under it, that is no gap.
#[tokio::test]
async fn restarts_and_takeovers_are_no_gaps() {
    let times = std::env::var("OUTBOX_RESTARTS").map_or(12, |times| times.parse().unwrap());
    let mut stage = flowing(Stage::builder()).await;
    for time in 0..times {
        match time % 4 {
            0 => stage.kill_router().await.unwrap(),
            1 => {
                stage.router.sigterm().unwrap();
                stage.router.wait_exit(SOON).await.unwrap();
            }
            2 => {
                stage.kill_router().await.unwrap();
                stage.postgres.kill9().await.unwrap();
                stage.postgres.start_again().await.unwrap();
            }
            _ => {
                // Another instance has the slot for a while, and its work is unknown to this one.
                let mut other =
                    testbed::router::Router::with_config(&stage.config.to_string()).unwrap();
                other.start_again().unwrap();
                other.wait_state("standby", SOON).await.unwrap();
                stage.kill_router().await.unwrap();
                other.wait_state("streaming", SOON).await.unwrap();
                write(&mut stage, 10).await;
                stage.wait_confirmed(SOON).await.unwrap();
                other.kill9().await.unwrap();
            }
        }
        write(&mut stage, 10).await;
        stage.restart().await.unwrap();
        tokio::time::sleep(Duration::from_millis(u64::try_from(time).unwrap() * 37 % 400)).await;
    }
    stage.wait_confirmed(SOON).await.unwrap();
    let log = stage.router.log();
    let errors: Vec<&str> = log.lines().filter(|line| line.contains(" ERROR ")).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    stage.verdict().await.unwrap().clean().unwrap();
}
