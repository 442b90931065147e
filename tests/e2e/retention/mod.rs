//! Rows are removed from the table while events flow, with `retention.keep = "0s"`: whatever may go
//! goes at once, so what may not go is in danger at every moment. What writers committed is known
//! without the outbox, so a row that is gone is one that has to be in Kafka.

use std::time::Duration;

use e2e::{Fixture, FixtureBuilder, ROLE, SHORT_DEADLINE, create_event_function, text};
use serde_json::Value;
use testbed::load::{COMMITTED, Load, Mix, TransactionKind};
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use testbed::wait::eventually;

mod archive;
mod commands;
mod copied;
mod gaps;
mod grants;
mod held;
mod joined;
mod outages;
mod partitions;
mod recovered;
mod snapshots;
mod transactions;

const DEADLINE: Duration = Duration::from_secs(90);

/// Rows that a writer deletes itself would look like removed ones.
fn load() -> Load {
    let mix = Mix::default().without(TransactionKind::InsertDelete);
    Load { writers: 4, think: Duration::from_millis(10), mix, ..Load::default() }
}

/// Sweeps follow each other as fast as they may.
fn builder() -> FixtureBuilder {
    Fixture::builder()
        .set("retention.mode", "delete")
        .set("retention.keep", "0s")
        .set("retention.interval", "1s")
        .set("retention.pause", "0ms")
        .set("monitor.interval", "500ms")
}

/// What a sweep needs.
const NEEDED: &str = "CREATE INDEX ON outbox (created_at)";

async fn grant(session: &DatabaseSession) {
    session.batch_execute(&format!("GRANT SELECT, DELETE ON outbox TO {ROLE}")).await.unwrap();
}

/// A streaming router that may remove rows.
async fn started(builder: FixtureBuilder) -> (Fixture, DatabaseSession) {
    let mut fixture = builder.prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute(NEEDED).await.unwrap();
    grant(&session).await;
    fixture.start_accepted().await.unwrap();
    (fixture, session)
}

/// Makes `testbed.event`, and the aggregates 100001 to 100005 for it: so writers wait for no lock.
async fn create_private_aggregates(session: &DatabaseSession) {
    create_event_function(session).await.unwrap();
    session
        .batch_execute(
            "INSERT INTO testbed.aggregate SELECT n, 'long-' || n, \
               (SELECT type FROM testbed.aggregate WHERE n = 0), 0 \
             FROM generate_series(100001, 100005) n",
        )
        .await
        .unwrap();
}

/// Checks that every row that is gone is in Kafka, and returns how many are gone. Rows are read
/// before topics: what is delivered in between is no excuse that is needed.
async fn check_gone_are_delivered(fixture: &Fixture, session: &DatabaseSession) -> usize {
    let sql = format!(
        "SELECT c.id::text FROM {COMMITTED} c WHERE NOT EXISTS \
         (SELECT FROM outbox o WHERE o.id = c.id)"
    );
    let gone: Vec<String> =
        session.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let (delivered, _) = fixture.delivered_ids().await.unwrap();
    let lost: Vec<&String> = gone.iter().filter(|id| !delivered.contains(*id)).collect();
    assert!(lost.is_empty(), "{} rows were removed and are not in Kafka: {lost:?}", lost.len());
    gone.len()
}

async fn count(session: &DatabaseSession, what: &str) -> i64 {
    session.query_one(&format!("SELECT count(*) FROM {what}"), &[]).await.unwrap().get(0)
}

/// Waits until so many rows are left.
async fn wait_left(session: &DatabaseSession, rows: i64) {
    let what = format!("{rows} rows in the outbox");
    eventually(DEADLINE, what, async || Ok((count(session, "outbox").await == rows).then_some(())))
        .await
        .unwrap();
}

/// Waits until a sweep that began after this call has ended.
async fn wait_swept(fixture: &mut Fixture) {
    for _ in 0..2 {
        let last = last_success(&fixture.router.status().await.unwrap());
        fixture
            .router
            .wait_status("a sweep", SHORT_DEADLINE, |status| last_success(status) > last)
            .await
            .unwrap();
    }
}

fn last_success(status: &Value) -> Option<f64> {
    status.pointer("/retention/last_success")?.as_f64()
}

/// Waits until the task says why it removes nothing.
async fn wait_waiting(fixture: &mut Fixture, why: &str) {
    fixture
        .router
        .wait_status(why, SHORT_DEADLINE, |status| text(status, "/retention/waits") == Some(why))
        .await
        .unwrap();
}

/// `cleanup` with these settings, as the superuser. Its exit code, and what it wrote.
async fn cleanup(fixture: &Fixture, more: &[&str]) -> (Option<i32>, String) {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = [&["cleanup", "--yes", "--admin-url", url.as_str()], more].concat();
    let output = fixture.router.command(&line).await.unwrap();
    let [out, err] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    (output.status.code(), out + &err)
}
