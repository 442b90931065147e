//! The outbox gets another name, or another table gets its name. A table is its OID: what it is
//! called says whom a row is produced for, and never that it may be left out.

use e2e::{Fixture, SHORT_DEADLINE, SLOT, text};
use serde_json::Value;
use testbed::postgres::DatabaseSession;

use super::{DEADLINE, found, insert_into, own_aggregate};

/// A fixture whose router streams, and a session to write with.
async fn streaming_fixture() -> (Fixture, DatabaseSession) {
    let fixture = Fixture::builder().set("monitor.interval", "1s").start().await.unwrap();
    let session = fixture.session().await.unwrap();
    own_aggregate(&session).await;
    write(&session, "outbox").await;
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    (fixture, session)
}

async fn write(session: &DatabaseSession, table: &str) {
    for _ in 0..10 {
        insert_into(session, table, "aggregate_id").await;
    }
}

async fn rename(session: &DatabaseSession, from: &str, to: &str) {
    session.batch_execute(&format!("ALTER TABLE {from} RENAME TO {to}")).await.unwrap();
}

/// Every row that was written is in Kafka, in order.
async fn expect_all_rows_delivered(fixture: &Fixture) {
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
}

fn configure(fixture: &mut Fixture, table: &str) {
    fixture.config.set_outbox("table", format!("public.{table}"));
    fixture.rewrite_config().unwrap();
}

#[tokio::test]
async fn a_table_renamed_while_the_router_was_down_and_configured_so_loses_nothing() {
    let (mut fixture, session) = streaming_fixture().await;
    fixture.kill_router().await.unwrap();
    write(&session, "outbox").await;
    rename(&session, "outbox", "outbox_v2").await;
    write(&session, "outbox_v2").await;
    configure(&mut fixture, "outbox_v2");
    fixture.restart().await.unwrap();
    write(&session, "outbox_v2").await;
    expect_all_rows_delivered(&fixture).await;
}

#[tokio::test]
async fn a_table_renamed_while_the_router_was_down_loses_nothing_before_it_is_configured_so() {
    let (mut fixture, session) = streaming_fixture().await;
    fixture.kill_router().await.unwrap();
    write(&session, "outbox").await;
    rename(&session, "outbox", "outbox_v2").await;
    write(&session, "outbox_v2").await;
    fixture.router.start_again().unwrap();
    // The table is remembered beyond the process.
    let is_reported = |status: &Value| found(status, "P029").is_some();
    fixture
        .router
        .wait_status("the report of the rename", SHORT_DEADLINE, is_reported)
        .await
        .unwrap();
    write(&session, "outbox_v2").await;
    fixture.kill_router().await.unwrap();
    configure(&mut fixture, "outbox_v2");
    fixture.restart().await.unwrap();
    expect_all_rows_delivered(&fixture).await;
}

#[tokio::test]
async fn a_rename_while_the_router_runs_is_reported_and_the_router_continues() {
    let (mut fixture, session) = streaming_fixture().await;
    rename(&session, "outbox", "outbox_v2").await;
    write(&session, "outbox_v2").await;
    let is_reported = |status: &Value| found(status, "P029").is_some();
    let status = fixture
        .router
        .wait_status("the report of the rename", SHORT_DEADLINE, is_reported)
        .await
        .unwrap();
    assert_eq!(text(&status, "/state"), Some("streaming"), "{status}");
    let finding = found(&status, "P029").unwrap();
    let message = text(finding, "/message").unwrap();
    assert!(message.contains("public.outbox is now called public.outbox_v2"), "{message}");
    assert!(text(finding, "/hint").unwrap().contains("[[outbox]]"), "{finding}");
    assert_eq!(fixture.router.get("/readyz").await.unwrap().status, 200);
    expect_all_rows_delivered(&fixture).await;

    // The next session starts, too: the table is remembered.
    session
        .batch_execute(&format!(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots \
             WHERE slot_name = '{SLOT}'"
        ))
        .await
        .unwrap();
    write(&session, "outbox_v2").await;
    expect_all_rows_delivered(&fixture).await;
    let log = fixture.router.log();
    let warned = log.lines().filter(|line| line.contains("WARN") && line.contains("P029"));
    assert_eq!(warned.count(), 1, "{log}");

    // Either way to make the configuration true again loses nothing.
    fixture.kill_router().await.unwrap();
    write(&session, "outbox_v2").await;
    configure(&mut fixture, "outbox_v2");
    fixture.restart().await.unwrap();
    write(&session, "outbox_v2").await;
    expect_all_rows_delivered(&fixture).await;
    rename(&session, "outbox_v2", "outbox").await;
    write(&session, "outbox").await;
    rename(&session, "outbox", "outbox_v2").await;
    expect_all_rows_delivered(&fixture).await;
}

/// Writes the rows of one transaction under a name that no other transaction sees.
async fn rename_write_and_rename_back(session: &DatabaseSession) {
    session.batch_execute("BEGIN; ALTER TABLE outbox RENAME TO tmp").await.unwrap();
    write(session, "tmp").await;
    session.batch_execute("ALTER TABLE tmp RENAME TO outbox; COMMIT").await.unwrap();
}

#[tokio::test]
async fn a_rename_that_is_reverted_in_its_transaction_loses_nothing() {
    let (mut fixture, session) = streaming_fixture().await;
    rename_write_and_rename_back(&session).await;
    expect_all_rows_delivered(&fixture).await;

    // The first that a session hears of the table is the passing name.
    fixture.kill_router().await.unwrap();
    rename_write_and_rename_back(&session).await;
    fixture.restart().await.unwrap();
    expect_all_rows_delivered(&fixture).await;
    let status = fixture.status().await.unwrap();
    assert_eq!(found(&status, "P029"), None, "{status}");
}

const SWAP: &str = "BEGIN; ALTER TABLE outbox RENAME TO outbox_old;
    CREATE TABLE outbox (LIKE outbox_old INCLUDING ALL);
    ALTER PUBLICATION outbox_router ADD TABLE outbox; COMMIT";

#[tokio::test]
async fn a_swapped_table_is_a_gap_after_which_the_rows_of_both_tables_are_produced() {
    let (mut fixture, session) = streaming_fixture().await;
    // Nothing is read meanwhile: the slot holds rows of both tables.
    fixture.kill_router().await.unwrap();
    write(&session, "outbox").await;
    session.batch_execute(SWAP).await.unwrap();
    write(&session, "outbox").await;
    fixture.router.start_again().unwrap();
    let status = fixture.router.wait_state("failed", SHORT_DEADLINE).await.unwrap();
    assert_eq!(text(&status, "/reason/code"), Some("P027"), "{status}");
    fixture.accept().await.unwrap();
    expect_all_rows_delivered(&fixture).await;

    session.batch_execute(&SWAP.replace("outbox_old", "outbox_older")).await.unwrap();
    write(&session, "outbox").await;
    let status = fixture.router.wait_state("failed", SHORT_DEADLINE).await.unwrap();
    assert_eq!(text(&status, "/reason/code"), Some("P027"), "{status}");
    let message = text(&status, "/reason/message").unwrap();
    assert!(message.contains("may be missing"), "{message}");
    assert!(status.pointer("/reason/interval/from/lsn").is_some(), "{status}");
    assert!(text(&status, "/reason/hint").unwrap().contains("both tables"), "{status}");
    fixture.accept().await.unwrap();
    write(&session, "outbox").await;
    expect_all_rows_delivered(&fixture).await;
}

/// Rows of the former table that bear neither the configured name nor its OID now, written before
/// the swap and after it.
#[tokio::test]
async fn a_table_renamed_and_then_replaced_loses_none_of_its_rows() {
    let (mut fixture, session) = streaming_fixture().await;
    rename(&session, "outbox", "outbox_old").await;
    let is_reported = |status: &Value| found(status, "P029").is_some();
    fixture
        .router
        .wait_status("the report of the rename", SHORT_DEADLINE, is_reported)
        .await
        .unwrap();
    write(&session, "outbox_old").await;
    fixture.kill_router().await.unwrap();
    write(&session, "outbox_old").await;
    let another = "BEGIN; CREATE TABLE outbox (LIKE outbox_old INCLUDING ALL);
        ALTER PUBLICATION outbox_router ADD TABLE outbox; COMMIT";
    session.batch_execute(another).await.unwrap();
    write(&session, "outbox_old").await;
    write(&session, "outbox").await;
    fixture.router.start_again().unwrap();
    let status = fixture.router.wait_state("failed", SHORT_DEADLINE).await.unwrap();
    assert_eq!(text(&status, "/reason/code"), Some("P027"), "{status}");
    fixture.accept().await.unwrap();
    expect_all_rows_delivered(&fixture).await;

    // Once the slot has passed them, the former table is an archive.
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    session
        .batch_execute("INSERT INTO outbox_old (aggregate_type, aggregate_id, event_type) VALUES ('order', 'x', 'Archived')")
        .await
        .unwrap();
    write(&session, "outbox").await;
    expect_all_rows_delivered(&fixture).await;
}

/// A migration that was rolled back: for a while another, unpublished table had the name.
#[tokio::test]
async fn a_table_swapped_and_swapped_back_is_reported() {
    let (mut fixture, session) = streaming_fixture().await;
    fixture.kill_router().await.unwrap();
    let swapped = "BEGIN; ALTER TABLE outbox RENAME TO outbox_old;
        CREATE TABLE outbox (LIKE outbox_old INCLUDING ALL); COMMIT;
        INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('order', 'x', 'Lost');
        BEGIN; ALTER TABLE outbox RENAME TO outbox_failed;
        ALTER TABLE outbox_old RENAME TO outbox; COMMIT";
    session.batch_execute(swapped).await.unwrap();
    write(&session, "outbox").await;
    fixture.restart().await.unwrap();
    let alteration = |status: &Value| status.pointer("/monitor/alterations/0").cloned();
    let is_reported = |status: &Value| alteration(status).is_some();
    let status = fixture
        .router
        .wait_status("the report of the names", SHORT_DEADLINE, is_reported)
        .await
        .unwrap();
    let alteration = alteration(&status).unwrap();
    assert_eq!(text(&alteration, "/code"), Some("P029"), "{status}");
    let message = text(&alteration, "/message").unwrap();
    assert!(message.contains("renamed and renamed back") && message.contains("up to"), "{message}");
    assert_eq!(text(&status, "/state"), Some("streaming"), "{status}");
    expect_all_rows_delivered(&fixture).await;
}

/// The monitor's first check comes before the session, which records the catalog as it is now.
#[tokio::test]
async fn an_alteration_is_reported_by_a_session_that_ends_before_the_monitors_first_check() {
    let builder = Fixture::builder().set("monitor.interval", "10s");
    let mut fixture = builder.start().await.unwrap();
    fixture.wait_streaming().await.unwrap();
    fixture.kill_router().await.unwrap();
    let session = fixture.session().await.unwrap();
    rename(&session, "outbox", "passing").await;
    rename(&session, "passing", "outbox").await;
    fixture.restart().await.unwrap();
    fixture.kill_router().await.unwrap();
    let log = fixture.router.log();
    assert!(log.lines().any(|line| line.contains("WARN") && line.contains("P029")), "{log}");
}
