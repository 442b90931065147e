//! Another server of the same history became the primary: with all that Kafka has or without a part
//! of it, with the slot or without.

use e2e::{Fixture, SHORT_DEADLINE, SLOT, postgres_version};
use testbed::postgres::{DATABASE, PostgresServer, SUPERUSER, ShutdownMode};
use testbed::wait::eventually;

use super::super::write;
use super::restored::{
    FORGOTTEN, expect_gap_of_lost_events, fixture_with_older_copy, write_past_what_kafka_has,
};
use super::{
    AtRisk, LOST, committed, create_slot, expect_continues_after_acceptance, expect_missing,
    fixture_without_router, interval, rounds::rounds, run,
};

/// A fixture whose router streams, and a standby that has the slot by PostgreSQL's own
/// synchronization (from version 17).
pub(crate) async fn fixture_with_standby() -> (Fixture, PostgresServer) {
    let mut fixture =
        Fixture::builder().track_commits().set("monitor.interval", "1s").prepare().await.unwrap();
    run(
        &fixture,
        &format!(
            "SELECT pg_drop_replication_slot('{SLOT}');
             SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput', failover => true);
             SELECT pg_create_physical_replication_slot('outbox_router_standby', true)"
        ),
    )
    .await;
    fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    let primary = format!(
        "host=127.0.0.1 port={} user={SUPERUSER} dbname={DATABASE}",
        fixture.postgres.port()
    );
    let settings = [
        ("primary_conninfo", primary.as_str()),
        ("primary_slot_name", "outbox_router_standby"),
        ("hot_standby_feedback", "on"),
        ("sync_replication_slots", "on"),
    ];
    let mut standby = fixture.postgres.copied(&settings).await.unwrap();
    for slot in std::fs::read_dir(standby.data_dir().join("pg_replslot")).unwrap() {
        std::fs::remove_dir_all(slot.unwrap().path()).unwrap();
    }
    standby.write_file("standby.signal", b"").unwrap();
    fixture.postgres.start_again().await.unwrap();
    standby.start_again().await.unwrap();
    fixture.restart().await.unwrap();
    write(&mut fixture, 100).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    wait_synced(&fixture, &standby).await;
    (fixture, standby)
}

/// A slot that was synchronised for the first time counts when the primary's has moved past where
/// the standby began.
async fn wait_synced(fixture: &Fixture, standby: &PostgresServer) {
    let primary = fixture.session().await.unwrap();
    let there = standby.connect().await.unwrap();
    let synced = format!(
        "SELECT count(*) FROM pg_replication_slots \
         WHERE slot_name = '{SLOT}' AND synced AND NOT temporary"
    );
    eventually(4 * SHORT_DEADLINE, "the slot on the standby", async || {
        primary.batch_execute("SELECT pg_log_standby_snapshot()").await?;
        let slots: i64 = there.query_one(&synced, &[]).await?.get(0);
        Ok((slots == 1).then_some(()))
    })
    .await
    .unwrap();
}

/// Stops the primary, and configures the router for the standby.
async fn switch_to_standby(fixture: &mut Fixture, standby: PostgresServer) {
    drop(std::mem::replace(&mut fixture.postgres, standby));
    let url = fixture.postgres.url(e2e::ROLE, DATABASE);
    fixture.config.set("postgres.url", url);
    fixture.rewrite_config().unwrap();
    fixture.postgres.promote().await.unwrap();
    let slot = fixture.slot().await.unwrap();
    assert_eq!(slot.plugin.as_deref(), Some("pgoutput"), "the slot was not synchronized");
}

/// A standby that was cut off, and became the primary without the last of what Kafka has.
async fn promote_lagging_standby() -> (Fixture, AtRisk) {
    let (mut fixture, mut standby) = fixture_with_standby().await;
    standby.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    write(&mut fixture, FORGOTTEN).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    let committed = committed(&mut fixture).await;
    fixture.postgres.kill9().await.unwrap();
    standby.start_again().await.unwrap();
    switch_to_standby(&mut fixture, standby).await;
    (fixture, committed)
}

/// Whether PostgreSQL brings slots to its standbys; before that, others do, by copying its files.
pub(crate) fn synchronizes_slots() -> bool {
    postgres_version().unwrap() >= 17
}

#[tokio::test]
async fn a_promotion_that_lost_transactions_is_a_gap_even_with_a_synchronized_slot() {
    rounds("promoted with the slot synced", async || {
        let (mut fixture, committed) = if synchronizes_slots() {
            promote_lagging_standby().await
        } else {
            let (mut fixture, committed) = fixture_with_older_copy().await.put_back();
            fixture.postgres.start_promoted().await.unwrap();
            (fixture, committed)
        };
        expect_gap_of_lost_events(&mut fixture, committed).await;
    })
    .await;
}

#[tokio::test]
async fn a_promotion_that_lost_transactions_and_has_written_past_them_is_a_gap() {
    rounds("promoted with the slot, written past", async || {
        let (mut fixture, committed) = fixture_with_older_copy().await.put_back();
        fixture.postgres.start_promoted().await.unwrap();
        write_past_what_kafka_has(&mut fixture).await;
        expect_gap_of_lost_events(&mut fixture, committed).await;
    })
    .await;
}

#[tokio::test]
async fn a_promotion_that_lost_transactions_is_a_gap_even_with_a_recreated_slot() {
    rounds("promoted with the slot made again", async || {
        let (mut fixture, committed) =
            fixture_with_older_copy().await.without_the_slot().put_back();
        fixture.postgres.start_promoted().await.unwrap();
        run(&fixture, &create_slot()).await;
        expect_gap_of_lost_events(&mut fixture, committed).await;
    })
    .await;
}

#[tokio::test]
async fn a_promotion_that_lost_only_the_slot_is_a_gap() {
    rounds("promoted without the slot", async || {
        let (mut fixture, confirmed) = fixture_without_router().await;
        fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
        std::fs::remove_dir_all(fixture.postgres.data_dir().join("pg_replslot").join(SLOT))
            .unwrap();
        fixture.postgres.start_promoted().await.unwrap();
        write(&mut fixture, LOST).await;
        let (status, missing) = expect_missing(&mut fixture, "P010").await;
        assert!(
            interval(&status)[0] >= confirmed,
            "the interval includes confirmed events, which are in Kafka: {status}"
        );
        run(&fixture, &create_slot()).await;
        expect_continues_after_acceptance(&mut fixture, &missing).await;
    })
    .await;
}

#[tokio::test]
async fn a_promotion_that_lost_nothing_is_no_gap_and_no_event_is_lost() {
    rounds("promoted with everything, goes on", async || {
        let mut fixture = if synchronizes_slots() {
            let (mut fixture, standby) = fixture_with_standby().await;
            fixture.kill_router().await.unwrap();
            // It is awaited.
            fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
            switch_to_standby(&mut fixture, standby).await;
            fixture
        } else {
            let (mut fixture, _) = fixture_without_router().await;
            fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
            fixture.postgres.start_promoted().await.unwrap();
            fixture
        };
        write(&mut fixture, LOST).await;
        fixture.restart().await.unwrap();
        fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
        fixture.check().await.unwrap().clean().unwrap();
    })
    .await;
}
