//! Rows may be missing for ever: the router stops, reports the interval, and never continues by
//! itself. Replaced servers are in [`histories`], damage while no router ran is in [`away`], damage
//! between two checks of the monitor is in [`moments`], and the warnings before a slot is lost are
//! in [`warnings`].

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::{Fixture, FixtureBuilder, PUBLICATION, SHORT_DEADLINE, SLOT, text};
use serde_json::Value;
use testbed::load::Load;
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;
use tokio::time::Instant;
use tokio_postgres::types::PgLsn;

mod accepting;
mod alterations;
pub(crate) mod away;
mod histories;
mod moments;
mod moved_rows;
mod warnings;

/// From the damage to `failed`.
const WITHIN: Duration = Duration::from_secs(10);

/// A fixture whose first hundred events have arrived and are confirmed.
async fn streaming_fixture(builder: FixtureBuilder) -> Fixture {
    let mut fixture = builder.set("monitor.interval", "1s").start().await.unwrap();
    write(&mut fixture, 100).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
    fixture
}

async fn write(fixture: &mut Fixture, events: u64) {
    let load = Load { events: Some(events), ..Load::default() };
    let journal = fixture.load(load).finished().await.unwrap();
    fixture.note(journal);
}

/// Copies a directory of the server's, with owners and modes.
pub(crate) fn copy_files(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(status.success(), "cp: {status}");
}

/// What was done to the server.
struct Damage {
    at: Instant,
    /// The interval begins here at the latest. The router may go on after the damage, up to the
    /// first row that is missing.
    latest_from: PgLsn,
}

async fn damage(fixture: &Fixture, sql: &str) -> Damage {
    let at = Instant::now();
    fixture.session().await.unwrap().batch_execute(sql).await.unwrap();
    Damage { at, latest_from: fixture.postgres.current_wal_lsn().await.unwrap() }
}

/// The same, and a row that will be missing is committed after it.
async fn damage_and_write(fixture: &mut Fixture, sql: &str) -> Damage {
    let damage = damage(fixture, sql).await;
    write(fixture, 1).await;
    let behind_the_row = u64::from(fixture.postgres.current_wal_lsn().await.unwrap());
    Damage { latest_from: (behind_the_row - 1).into(), ..damage }
}

/// The router says within ten seconds that rows may be missing, since when and until when; and then
/// it does nothing more, whatever is written.
async fn expect_gap(fixture: &mut Fixture, codes: &[&str], damage: &Damage) -> Value {
    let left = WITHIN.saturating_sub(damage.at.elapsed());
    let status = fixture
        .router
        .wait_status(&format!("failed with {codes:?}"), left, |status| {
            // A gap that the stream shows first gets its interval from the monitor's next check.
            text(status, "/state") == Some("failed")
                && is_one_of(status, codes)
                && has_interval(status)
        })
        .await
        .unwrap();
    expect_interval(&status, damage);
    expect_reported(fixture, codes).await;
    expect_nothing_produced(fixture, codes).await;
    status
}

fn is_one_of(status: &Value, codes: &[&str]) -> bool {
    text(status, "/reason/code").is_some_and(|code| codes.contains(&code))
}

fn has_interval(status: &Value) -> bool {
    status.pointer("/reason/interval").is_some_and(Value::is_object)
}

fn expect_interval(status: &Value, damage: &Damage) {
    let position = |end: &str| -> PgLsn {
        let lsn = text(status, &format!("/reason/interval/{end}/lsn"));
        lsn.unwrap_or_else(|| panic!("the interval has no {end}: {status}")).parse().unwrap()
    };
    let (from, to) = (position("from"), position("to"));
    assert!(
        from <= damage.latest_from,
        "the interval begins at {from}, and rows before it are missing: {status}"
    );
    assert!(to >= from, "{status}");
    let message = text(status, "/reason/message").unwrap();
    for end in [from, to] {
        assert!(
            message.contains(&end.to_string()),
            "no {end} for those who read only this: {message}"
        );
    }
    assert!(text(status, "/reason/hint").is_some_and(|hint| !hint.is_empty()), "{status}");
}

async fn expect_reported(fixture: &Fixture, codes: &[&str]) {
    let ready = fixture.router.get("/readyz").await.unwrap();
    assert_eq!(ready.status, 503, "{}", ready.body);
    assert!(codes.iter().any(|code| ready.body.contains(code)), "{}", ready.body);
    assert_eq!(fixture.router.get("/livez").await.unwrap().status, 200);
    // The page is made when it is asked for; the log is written a moment after the state has
    // changed.
    let logged = eventually(SHORT_DEADLINE, "an error in the log", async || {
        let log = fixture.router.log();
        let mut errors = log.lines().filter(|line| line.contains("ERROR"));
        Ok(errors.any(|line| codes.iter().any(|code| line.contains(code))).then_some(()))
    });
    logged.await.unwrap();
}

/// Rows that are written now are neither produced nor confirmed, and nothing is re-created.
async fn expect_nothing_produced(fixture: &mut Fixture, codes: &[&str]) {
    let session = fixture.session().await.unwrap();
    let let_go = eventually(SHORT_DEADLINE, "the walsender to be gone", async || {
        Ok((count(&session, "pg_stat_replication").await == 0).then_some(()))
    });
    let_go.await.unwrap();
    let before = (slot_and_publications(fixture, &session).await, produced(fixture).await);
    session
        .batch_execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('order', 'late', 'Late')",
        )
        .await
        .unwrap();
    wait_for_monitor(fixture, 3.0).await;
    assert_eq!((slot_and_publications(fixture, &session).await, produced(fixture).await), before);
    let status = fixture.router.wait_state("failed", SHORT_DEADLINE).await.unwrap();
    assert!(is_one_of(&status, codes), "the router reports another reason now: {status}");
    // One interval, not another behind it.
    let log = fixture.router.log();
    let twice = log.lines().find(|line| line.matches("may be missing in Kafka").count() > 1);
    assert_eq!(twice, None);
}

/// Slot and publication as the server has them.
async fn slot_and_publications(
    fixture: &Fixture,
    session: &DatabaseSession,
) -> (Option<PgLsn>, Vec<String>) {
    let slot = fixture.postgres.slot(SLOT).await.unwrap();
    let published = "SELECT p.oid || ' ' || p.pubinsert || ' ' || coalesce(r.prrelid::regclass::text, '-') \
                     || ' ' || (r.prqual IS NULL) FROM pg_publication p \
                     LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid ORDER BY 1";
    let rows = session.query(published, &[]).await.unwrap();
    let mut published: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    published.push(format!("{} slots", count(session, "pg_replication_slots").await));
    (slot.and_then(|slot| slot.confirmed_flush_lsn), published)
}

async fn produced(fixture: &Fixture) -> Vec<i64> {
    let topic = fixture.topics.first().unwrap();
    fixture.kafka.end_offsets(topic).await.unwrap()
}

/// Waits until the monitor has checked the server this much later. A router that has begun just
/// now may have streamed before its first look.
async fn wait_for_monitor(fixture: &mut Fixture, seconds: f64) {
    let polled = |status: &Value| status.pointer("/monitor/polled_at").and_then(Value::as_f64);
    let looked = |status: &Value| polled(status).is_some();
    let status =
        fixture.router.wait_status("a look of the monitor", SHORT_DEADLINE, looked).await.unwrap();
    let now = polled(&status).unwrap();
    let later = |status: &Value| polled(status).is_some_and(|at| at >= now + seconds);
    fixture
        .router
        .wait_status("later looks of the monitor", 2 * SHORT_DEADLINE, later)
        .await
        .unwrap();
}

async fn count(session: &DatabaseSession, relation: &str) -> i64 {
    session.query_one(&format!("SELECT count(*) FROM {relation}"), &[]).await.unwrap().get(0)
}

/// Ends whoever streams from the slot, and drops it before they come back.
fn drop_slot() -> String {
    format!(
        "DO $$ BEGIN LOOP
             PERFORM pg_terminate_backend(active_pid) FROM pg_replication_slots \
                 WHERE slot_name = '{SLOT}' AND active;
             BEGIN PERFORM pg_drop_replication_slot('{SLOT}'); EXIT;
             EXCEPTION WHEN object_in_use THEN PERFORM pg_sleep(0.01); END;
         END LOOP; END $$"
    )
}

#[tokio::test]
async fn a_slot_dropped_while_the_router_streams_is_a_gap_even_if_it_is_recreated() {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    let confirmed = fixture.confirmed().await.unwrap();
    let done = damage(&fixture, &drop_slot()).await;
    let status = expect_gap(&mut fixture, &["P010"], &done).await;
    let from: PgLsn =
        status["reason"]["interval"]["from"]["lsn"].as_str().unwrap().parse().unwrap();
    assert!(
        from >= confirmed,
        "the interval includes confirmed rows, which are not at risk: {status}"
    );
    assert!(status["reason"]["hint"].as_str().unwrap().contains("outbox-router setup --apply"));
    let session = fixture.session().await.unwrap();
    assert_eq!(count(&session, "pg_replication_slots").await, 0, "the router created a slot");

    // A new slot does not bring back what was written meanwhile.
    let again = format!("SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')");
    session.batch_execute(&again).await.unwrap();
    expect_nothing_produced(&mut fixture, &["P010"]).await;
}

/// Has the server write more than it keeps for a slot, and remove it.
const OUTRUN: &str = "DO $$ BEGIN FOR i IN 1..5 LOOP
        PERFORM pg_logical_emit_message(false, 'testbed', 'x'); PERFORM pg_switch_wal();
    END LOOP; END $$; CHECKPOINT";

fn keeping_little_wal() -> FixtureBuilder {
    Fixture::builder().postgres("max_slot_wal_keep_size", "32MB")
}

#[tokio::test]
async fn a_slot_in_use_that_falls_behind_max_slot_wal_keep_size_is_lost() {
    let mut fixture = streaming_fixture(keeping_little_wal()).await;
    let session = fixture.session().await.unwrap();
    // Nothing can be acknowledged: its topic does not exist.
    let stuck = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('stuck', 's-1', 'Stuck')";
    session.batch_execute(stuck).await.unwrap();
    fixture.router.wait_state("blocked", SHORT_DEADLINE).await.unwrap();
    // Statement by statement: a checkpoint is not for a transaction.
    let (outrun, checkpoint) = OUTRUN.rsplit_once(';').unwrap();
    session.batch_execute(outrun).await.unwrap();
    let done = damage(&fixture, checkpoint).await;
    let status = expect_gap(&mut fixture, &["P011"], &done).await;
    assert_eq!(status["slot"]["wal_status"], "lost", "{status}");
}

#[tokio::test]
async fn a_slot_lost_while_the_router_was_down_is_a_gap_that_the_router_does_not_mend() {
    let mut fixture = streaming_fixture(keeping_little_wal()).await;
    fixture.kill_router().await.unwrap();
    write(&mut fixture, 20).await;
    let confirmed = fixture.confirmed().await.unwrap();
    let session = fixture.session().await.unwrap();
    for statement in OUTRUN.rsplitn(2, ';').collect::<Vec<_>>().iter().rev() {
        session.batch_execute(statement).await.unwrap();
    }
    fixture.router.start_again().unwrap();
    let status = fixture.router.wait_state("failed", WITHIN).await.unwrap();
    assert_eq!(status["reason"]["code"], "P011", "{status}");
    let message = status["reason"]["message"].as_str().unwrap();
    assert!(
        message.contains(&confirmed.to_string()),
        "the message does not say since when rows are missing: {message}"
    );
    expect_reported(&fixture, &["P011"]).await;
    expect_nothing_produced(&mut fixture, &["P011"]).await;
}

#[tokio::test]
async fn a_dropped_publication_is_a_gap() {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    // At the row PostgreSQL 17 ends the stream, and 18 warns and skips it.
    let done = damage_and_write(&mut fixture, &format!("DROP PUBLICATION {PUBLICATION}")).await;
    expect_gap(&mut fixture, &["P020"], &done).await;
}

#[tokio::test]
async fn a_publication_dropped_and_recreated_is_a_gap_after_a_restart_too() {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    let session = fixture.session().await.unwrap();
    let done = damage_and_write(&mut fixture, &format!("DROP PUBLICATION {PUBLICATION}")).await;
    let again =
        format!("CREATE PUBLICATION {PUBLICATION} FOR TABLE outbox WITH (publish = 'insert')");
    session.batch_execute(&again).await.unwrap();
    // By what the stream says of that row, or by what the catalog says of the publication.
    expect_gap(&mut fixture, &["P020", "P026"], &done).await;

    // The WAL is decoded with the catalog of its time: that the publication is back repairs
    // nothing.
    fixture.kill_router().await.unwrap();
    fixture.router.start_again().unwrap();
    let status = fixture.router.wait_state("failed", WITHIN).await.unwrap();
    assert_eq!(status["reason"]["code"], "P020", "{status}");
    expect_nothing_produced(&mut fixture, &["P020"]).await;
}

/// Somebody narrows what is published; at this the stream itself says nothing at all.
async fn expect_gap_after(change: &str, code: &str) {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    let done = damage_and_write(&mut fixture, change).await;
    expect_gap(&mut fixture, &[code], &done).await;
}

#[tokio::test]
async fn a_table_taken_out_of_the_publication_is_a_gap() {
    expect_gap_after("ALTER PUBLICATION outbox_router DROP TABLE outbox", "P021").await;
}

#[tokio::test]
async fn a_publication_that_no_longer_publishes_inserts_is_a_gap() {
    expect_gap_after("ALTER PUBLICATION outbox_router SET (publish = 'update')", "P022").await;
}

#[tokio::test]
async fn a_row_filter_is_a_gap() {
    let filter =
        "ALTER PUBLICATION outbox_router SET TABLE outbox WHERE (aggregate_id <> 'order-1')";
    expect_gap_after(filter, "P023").await;
}

#[tokio::test]
async fn a_column_list_without_the_key_is_a_gap() {
    let list = "ALTER PUBLICATION outbox_router SET TABLE outbox (id, aggregate_type, event_type, payload)";
    expect_gap_after(list, "P024").await;
}

#[tokio::test]
async fn a_table_replaced_by_a_rename_is_a_gap() {
    let swap = "BEGIN; ALTER TABLE outbox RENAME TO outbox_old;
                CREATE TABLE outbox (LIKE outbox_old INCLUDING ALL); COMMIT";
    expect_gap_after(swap, "P027").await;
}

#[tokio::test]
async fn a_publication_narrowed_while_the_router_was_down_is_a_gap() {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    fixture.kill_router().await.unwrap();
    let session = fixture.session().await.unwrap();
    let narrowed = "ALTER PUBLICATION outbox_router SET (publish = 'update')";
    let done = damage_and_write(&mut fixture, narrowed).await;
    fixture.router.start_again().unwrap();
    let status = fixture.router.wait_state("failed", WITHIN).await.unwrap();
    assert_eq!(status["reason"]["code"], "P022", "{status}");
    expect_interval(&status, &done);
    expect_reported(&fixture, &["P022"]).await;

    // Publishing them again brings no row back.
    let widened = "ALTER PUBLICATION outbox_router SET (publish = 'insert')";
    session.batch_execute(widened).await.unwrap();
    wait_for_monitor(&mut fixture, 35.0).await;
    expect_nothing_produced(&mut fixture, &["P022"]).await;
}
