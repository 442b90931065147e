//! What the monitor measures, against the server's own arithmetic.

use outbox_router::monitor::{ObservedSlot, WalStatus};
use relay::State;
use tokio_postgres::Client;

use crate::{
    fixture::{MonitorFixture, set_up, settings},
    log::Log,
    postgres::Postgres,
};

/// Writes WAL that belongs to no table. Transactional, so that it is written out when the call
/// returns.
async fn write_wal(client: &Client, bytes: i32) {
    let query = "select pg_logical_emit_message(true, 'noise', repeat('x', $1))";
    client.query_one(query, &[&bytes]).await.unwrap();
}

#[tokio::test]
async fn the_slots_numbers_are_postgresqls_own() {
    let postgres = Postgres::start(&["max_slot_wal_keep_size=1GB"]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    write_wal(&client, 3_000_000).await;
    let row = client
        .query_one(
            "select (pg_current_wal_lsn() - confirmed_flush_lsn)::int8, \
               (pg_current_wal_lsn() - restart_lsn)::int8, safe_wal_size \
             from pg_replication_slots where slot_name = 's_x'",
            &[],
        )
        .await
        .unwrap();
    let number = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap();
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Starting);
    let report = fixture.until_good_reading().await;
    let slot = report.slot.health().unwrap();
    // The background writer may add a record in between.
    let about = |ours: u64, theirs: u64| ours >= theirs && ours - theirs < 10_000;
    assert!(about(slot.bytes_behind(), number(0)), "{slot:?} {row:?}");
    assert!(about(slot.retained_bytes().unwrap(), number(1)), "{slot:?} {row:?}");
    assert!(slot.bytes_behind() > 3_000_000);
    assert!(about(number(2), slot.safe_wal_bytes.unwrap()), "{slot:?} {row:?}");
    assert_eq!(slot.wal_status, WalStatus::Reserved);
    assert_eq!(
        (slot.plugin.as_deref(), slot.database.as_deref()),
        (Some("pgoutput"), Some("postgres"))
    );
    assert!(!slot.is_active());
}

#[tokio::test]
async fn an_active_slot_names_its_walsender_and_one_without_a_limit_has_no_safe_bytes() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let _streamer = postgres.stream("s_x", "p_x");
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    let active = |view: &ObservedSlot| view.health().is_some_and(|slot| slot.active_pid.is_some());
    let report = fixture.until("a walsender", |report| active(&report.slot)).await;
    assert_eq!(report.slot.health().unwrap().safe_wal_bytes, None);
    assert_eq!(report.seconds_to_limit, None);
}

#[tokio::test]
async fn crossing_a_threshold_is_logged_once_and_so_is_the_return() {
    let log = Log::default();
    let _guard = log.listen();
    let postgres = Postgres::start(&["max_slot_wal_keep_size=1GB"]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Blocked);
    fixture.until_good_reading().await;
    fixture.rounds(2).await;
    assert_eq!(log.lines(" behind"), [""; 0]);

    write_wal(&client, 2_000_000).await;
    fixture.rounds(4).await;
    write_wal(&client, 100_000).await;
    fixture.rounds(3).await;
    let lines = log.lines(" behind");
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in [
        " WARN ",
        "slot \"s_x\" is ",
        "more than warning (1.0 MiB)",
        "waits for Kafka",
        "PostgreSQL invalidates the slot after",
        "outbox-router status",
    ] {
        assert!(lines[0].contains(part), "{part} in {lines:?}");
    }

    write_wal(&client, 4_000_000).await;
    fixture.rounds(4).await;
    let lines = log.lines(" behind");
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].contains("ERROR ") && lines[1].contains("more than critical (4.0 MiB)"));

    let advance = "select pg_replication_slot_advance('s_x', pg_current_wal_lsn())";
    client.batch_execute(advance).await.unwrap();
    fixture.rounds(4).await;
    let lines = log.lines(" behind");
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[2].contains(" INFO ") && lines[2].contains("below warning (1.0 MiB) again"));
}

/// What the first transaction of a gap rests upon: the slot's `catalog_xmin` never passes a
/// transaction that had not ended at the slot's position.
#[tokio::test]
async fn every_transaction_before_the_slots_horizon_had_ended_at_its_position() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let open = postgres.client().await;
    open.batch_execute("begin; savepoint s").await.unwrap();
    let xid = open.query_one("select pg_current_xact_id()::text::int8", &[]).await.unwrap();
    let xid = u64::try_from(xid.get::<_, i64>(0)).unwrap();
    let horizon = async || {
        // Each checkpoint says which transactions run.
        for _ in 0..3 {
            write_wal(&client, 10).await;
            client.batch_execute("checkpoint").await.unwrap();
            let advance = "select pg_replication_slot_advance('s_x', pg_current_wal_lsn())";
            client.query_one(advance, &[]).await.unwrap();
        }
        let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Starting);
        fixture.until_good_reading().await.slot.health().unwrap().horizon().unwrap()
    };
    let before = horizon().await;
    assert!(before.xmin.as_u64() <= xid, "{before:?} {xid}");
    open.batch_execute("commit").await.unwrap();
    let row = client.query_one("select pg_current_wal_lsn()::text", &[]).await.unwrap();
    let committed: relay::Lsn = row.get::<_, String>(0).parse().unwrap();
    let after = horizon().await;
    assert!(after.xmin.as_u64() > xid && after.lsn >= committed, "{after:?} {xid} {committed}");
}
