//! The polling source: rows are read from the table, produced, and marked there.

mod coalesced;
mod config_changed;
mod delivery;
mod kills;
mod marks;
mod pooler;
mod raised;
mod retention;
mod retries;
mod service;
mod switch;
mod tap;
mod times;
mod where_is;
mod workers;

use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::{Fixture, FixtureBuilder, ROLE, SHORT_DEADLINE, SLOT};
use testbed::load::{Load, Mix, TransactionKind};
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use testbed::router::RouterProcess;
use testbed::wait::eventually;

const DEADLINE: Duration = Duration::from_secs(120);

/// So many rows are in flight at most.
const BATCH: usize = 100;

/// A pending row is one that has no time of publication. Rows are in the order of a number that is
/// taken when they are written, so under the lock of their aggregate.
const COLUMNS: &str = "alter table outbox \
    add n bigint generated always as identity, \
    add published_at timestamptz";

/// A fixture whose router polls.
fn polling() -> FixtureBuilder {
    Fixture::builder()
        .set("postgres.source", "polling")
        .set("polling.batch", BATCH)
        .set_outbox("order_by", vec!["n"])
}

/// Everything that writers do, but what a poller sees in another way than a stream does: a row that
/// is deleted before the commit is never seen, and one that is updated is seen as it is then.
fn load() -> Load {
    let mix =
        Mix::default().without(TransactionKind::InsertDelete).without(TransactionKind::Upsert);
    Load { writers: 8, mix, think: Duration::from_millis(20), ..Load::default() }
}

/// Adds the columns of the marks, runs `setup`, and starts nothing.
async fn prepared(builder: FixtureBuilder, columns: &str) -> Fixture {
    let fixture = builder.prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute(columns).await.unwrap();
    drop_slot(&session).await;
    set_up(&fixture, &[]).await.unwrap();
    fixture
}

/// Workers take no table that a slot streams.
async fn drop_slot(session: &DatabaseSession) {
    session.execute("SELECT pg_drop_replication_slot($1)", &[&SLOT]).await.unwrap();
}

/// The same, and starts the router.
async fn started(builder: FixtureBuilder, columns: &str) -> Fixture {
    let mut fixture = prepared(builder, columns).await;
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    fixture
}

async fn set_up(fixture: &Fixture, flags: &[&str]) -> anyhow::Result<()> {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let command = ["setup", "--apply", "--role", ROLE, "--admin-url", &url];
    let output = fixture.router.command(&[&command, flags].concat()).await?;
    let text = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "setup: {}", String::from_utf8_lossy(&text));
    Ok(())
}

async fn wait_polling(router: &mut RouterProcess) {
    router.wait_state("polling", SHORT_DEADLINE).await.unwrap();
}

async fn stop(router: &mut RouterProcess) {
    router.sigterm().unwrap();
    assert_eq!(router.wait_exit(SHORT_DEADLINE).await.unwrap().code(), Some(0));
}

/// A row of this key. One whose headers are no object cannot be delivered (R009).
async fn insert(session: &DatabaseSession, key: &str, headers: &str) {
    let sql = format!(
        "insert into outbox (aggregate_type, aggregate_id, event_type, payload, headers) \
         values ('order', '{key}', 'Made', '{{}}', '{headers}')"
    );
    session.batch_execute(&sql).await.unwrap();
}

/// Waits until a condition holds for no row of the outbox.
async fn wait_none(session: &DatabaseSession, condition: &str) -> anyhow::Result<()> {
    let query = format!("select count(*) from outbox where {condition}");
    eventually(DEADLINE, format!("no row with {condition}"), async || {
        let rows: i64 = session.query_one(&query, &[]).await?.try_get(0)?;
        Ok((rows == 0).then_some(()))
    })
    .await
    .with_context(|| format!("rows with {condition} are left"))
}

/// Everything that was written is in Kafka, and marked.
async fn wait_published(fixture: &Fixture) {
    fixture.wait_delivered(DEADLINE).await.unwrap();
    let session = fixture.session().await.unwrap();
    wait_none(&session, "published_at is null").await.unwrap();
}
