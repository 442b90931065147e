//! Another server of the same history became the primary: with all that Kafka has or without a part
//! of it, with the slot or without.

use e2e::{SLOT, SOON, Stage, postgres_version};
use testbed::postgres::{DATABASE, PostgresServer, SUPERUSER, ShutdownMode};
use testbed::wait::eventually;

use super::super::write;
use super::restored::{FORGOTTEN, expect_forgotten, with_an_older_copy, write_past_what_kafka_has};
use super::{
    AtRisk, LOST, abandoned, committed, create_slot, expect_missing, goes_on_after_acceptance,
    interval, rounds::rounds, run,
};

/// A stage whose router streams, and a standby that has the slot by PostgreSQL's own
/// synchronisation (from version 17).
async fn with_a_standby() -> (Stage, PostgresServer) {
    let mut stage =
        Stage::builder().witnessed().set("monitor.interval", "1s").prepare().await.unwrap();
    run(
        &stage,
        &format!(
            "SELECT pg_drop_replication_slot('{SLOT}');
             SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput', failover => true);
             SELECT pg_create_physical_replication_slot('standby', true)"
        ),
    )
    .await;
    stage.postgres.stop(ShutdownMode::Fast, SOON).await.unwrap();
    let primary =
        format!("host=127.0.0.1 port={} user={SUPERUSER} dbname={DATABASE}", stage.postgres.port());
    let settings = [
        ("primary_conninfo", primary.as_str()),
        ("primary_slot_name", "standby"),
        ("hot_standby_feedback", "on"),
        ("sync_replication_slots", "on"),
    ];
    let mut standby = stage.postgres.copied(&settings).await.unwrap();
    for slot in std::fs::read_dir(standby.data_dir().join("pg_replslot")).unwrap() {
        std::fs::remove_dir_all(slot.unwrap().path()).unwrap();
    }
    standby.write_file("standby.signal", b"").unwrap();
    stage.postgres.start_again().await.unwrap();
    standby.start_again().await.unwrap();
    stage.restart().await.unwrap();
    write(&mut stage, 100).await;
    stage.wait_confirmed(SOON).await.unwrap();
    wait_synced(&stage, &standby).await;
    (stage, standby)
}

/// A slot that was synchronised for the first time counts when the primary's has moved past where
/// the standby began.
async fn wait_synced(stage: &Stage, standby: &PostgresServer) {
    let primary = stage.session().await.unwrap();
    let there = standby.connect().await.unwrap();
    let synced = format!(
        "SELECT count(*) FROM pg_replication_slots \
         WHERE slot_name = '{SLOT}' AND synced AND NOT temporary"
    );
    eventually(4 * SOON, "the slot on the standby", async || {
        primary.batch_execute("SELECT pg_log_standby_snapshot()").await?;
        let slots: i64 = there.query_one(&synced, &[]).await?.get(0);
        Ok((slots == 1).then_some(()))
    })
    .await
    .unwrap();
}

/// The primary is gone, and the router is told of the standby.
async fn fail_over(stage: &mut Stage, standby: PostgresServer) {
    drop(std::mem::replace(&mut stage.postgres, standby));
    let url = stage.postgres.url(e2e::ROLE, DATABASE);
    stage.config.set("postgres.url", url);
    stage.rewrite_config().unwrap();
    stage.postgres.promote().await.unwrap();
    let slot = stage.slot().await.unwrap();
    assert_eq!(slot.plugin.as_deref(), Some("pgoutput"), "the slot came with it");
}

/// A standby that was cut off, and became the primary without the last of what Kafka has.
async fn promoted_behind() -> (Stage, AtRisk) {
    let (mut stage, mut standby) = with_a_standby().await;
    standby.stop(ShutdownMode::Fast, SOON).await.unwrap();
    write(&mut stage, FORGOTTEN).await;
    stage.wait_confirmed(SOON).await.unwrap();
    stage.kill_router().await.unwrap();
    let committed = committed(&mut stage).await;
    stage.postgres.kill9().await.unwrap();
    standby.start_again().await.unwrap();
    fail_over(&mut stage, standby).await;
    (stage, committed)
}

/// Whether PostgreSQL brings slots to its standbys; before that, others do, by copying its files.
fn synchronises_slots() -> bool {
    postgres_version().unwrap() >= 17
}

#[tokio::test]
async fn a_promotion_that_forgot_transactions_with_the_slot_synced() {
    rounds("promoted with the slot synced", async || {
        let (mut stage, committed) = if synchronises_slots() {
            promoted_behind().await
        } else {
            let (mut stage, committed) = with_an_older_copy().await.put_back();
            stage.postgres.start_promoted().await.unwrap();
            (stage, committed)
        };
        expect_forgotten(&mut stage, committed).await;
    })
    .await;
}

#[tokio::test]
async fn a_promotion_that_forgot_transactions_and_has_written_past_them() {
    rounds("promoted with the slot, written past", async || {
        let (mut stage, committed) = with_an_older_copy().await.put_back();
        stage.postgres.start_promoted().await.unwrap();
        write_past_what_kafka_has(&mut stage).await;
        expect_forgotten(&mut stage, committed).await;
    })
    .await;
}

#[tokio::test]
async fn a_promotion_that_forgot_transactions_with_a_slot_made_again() {
    rounds("promoted with the slot made again", async || {
        let (mut stage, committed) = with_an_older_copy().await.without_the_slot().put_back();
        stage.postgres.start_promoted().await.unwrap();
        run(&stage, &create_slot()).await;
        expect_forgotten(&mut stage, committed).await;
    })
    .await;
}

#[tokio::test]
async fn a_promotion_that_forgot_nothing_but_the_slot() {
    rounds("promoted without the slot", async || {
        let (mut stage, confirmed) = abandoned().await;
        stage.postgres.stop(ShutdownMode::Fast, SOON).await.unwrap();
        std::fs::remove_dir_all(stage.postgres.data_dir().join("pg_replslot").join(SLOT)).unwrap();
        stage.postgres.start_promoted().await.unwrap();
        write(&mut stage, LOST).await;
        let (status, missing) = expect_missing(&mut stage, "P010").await;
        assert!(interval(&status)[0] >= confirmed, "what was confirmed is in kafka: {status}");
        run(&stage, &create_slot()).await;
        goes_on_after_acceptance(&mut stage, &missing).await;
    })
    .await;
}

#[tokio::test]
async fn a_promotion_that_forgot_nothing_is_none_and_loses_nothing() {
    rounds("promoted with everything, goes on", async || {
        let mut stage = if synchronises_slots() {
            let (mut stage, standby) = with_a_standby().await;
            stage.kill_router().await.unwrap();
            // It is awaited.
            stage.postgres.stop(ShutdownMode::Fast, SOON).await.unwrap();
            fail_over(&mut stage, standby).await;
            stage
        } else {
            let (mut stage, _) = abandoned().await;
            stage.postgres.stop(ShutdownMode::Fast, SOON).await.unwrap();
            stage.postgres.start_promoted().await.unwrap();
            stage
        };
        write(&mut stage, LOST).await;
        stage.restart().await.unwrap();
        stage.wait_confirmed(SOON).await.unwrap();
        stage.verdict().await.unwrap().clean().unwrap();
    })
    .await;
}
