//! `recover`: a slot is lost, and the rows are still in the table.

mod copies;
mod formers;
mod interrupted;
mod kept;
mod long;
mod lost;
mod many;
mod old_rows;
mod proved;
mod refused;
mod uncompared;
mod waiting;

use std::time::Duration;

use e2e::{Fixture, FixtureBuilder, SHORT_DEADLINE, SLOT, text};
use serde_json::Value;
use testbed::load::{Load, Mix, TransactionKind};
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use testbed::wait::eventually;

/// A row that its writer deletes cannot be found again.
fn load() -> Load {
    let mix = Mix::default().without(TransactionKind::InsertDelete);
    Load { writers: 4, think: Duration::from_millis(5), mix, ..Load::default() }
}

/// A streaming router with a witness, and an index on the time.
async fn streaming(builder: FixtureBuilder) -> (Fixture, DatabaseSession) {
    let mut fixture = builder.prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute("CREATE INDEX ON outbox (created_at)").await.unwrap();
    fixture.start_accepted().await.unwrap();
    (fixture, session)
}

/// The command line, as a superuser who does not want to be asked.
fn line(fixture: &Fixture, more: &[&str]) -> Vec<String> {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = [&["recover", "--yes", "--json", "--by", "ann"], more, &["--admin-url", &url]];
    line.concat().into_iter().map(str::to_owned).collect()
}

/// Runs the command to its end. Returns its exit code, its answer, and what it says beside that.
async fn recover(fixture: &Fixture, more: &[&str]) -> (Option<i32>, Value, String) {
    fixture.json_command(&line(fixture, more)).await.unwrap()
}

/// Checks that the command has closed the gap, and what it has counted in the only table.
fn expect_closed((exit, answer, said): &(Option<i32>, Value, String), counts: &[(&str, u64)]) {
    let is_closed = answer.pointer("/closed") == Some(&Value::Bool(true));
    assert!(*exit == Some(0) && is_closed, "{exit:?} {answer:#}{said}");
    for (name, count) in counts {
        let counted = answer.pointer(&format!("/tables/0/{name}")).and_then(Value::as_u64);
        assert_eq!(counted, Some(*count), "{name}: {answer:#}{said}");
    }
}

/// Writes `rows` rows of ten keys.
async fn write(fixture: &Fixture, session: &DatabaseSession, rows: i32) {
    let aggregate_type = fixture.schema.types.first().unwrap();
    let sql = format!(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) \
         SELECT '{aggregate_type}', 'key-' || n % 10, 'Changed', jsonb_build_object('n', n) \
         FROM generate_series(1, {rows}) n"
    );
    session.batch_execute(&sql).await.unwrap();
}

/// Drops the slot, which the walsender of a command that has ended may hold for a moment.
async fn drop_slot(session: &DatabaseSession) {
    eventually(SHORT_DEADLINE, "the slot is dropped", async || {
        let dropped = session.execute("SELECT pg_drop_replication_slot($1)", &[&SLOT]).await;
        Ok(dropped.ok().map(drop))
    })
    .await
    .unwrap();
}

/// Waits until the router stands at a gap with this code, and has written it down.
async fn wait_failed(fixture: &mut Fixture, code: &str) {
    let is_failed = |status: &Value| {
        text(status, "/state") == Some("failed")
            && text(status, "/reason/code") == Some(code)
            && status.pointer("/witness/gaps_recorded") == Some(&Value::Bool(true))
    };
    fixture.router.wait_status(code, SHORT_DEADLINE, is_failed).await.unwrap();
}
