//! `setup --backfill`: rows that the table has before there is a slot.

mod from_poller;
mod interrupted;
mod old_rows;
mod refused;

use std::time::Duration;

use e2e::{Fixture, LONG_DEADLINE, SHORT_DEADLINE, SLOT, wait_committed};
use testbed::load::{Load, Mix, TransactionKind};
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use tokio::time::Instant;

/// A row that its writer deletes is in the stream only.
fn load() -> Load {
    let mix = Mix::default().without(TransactionKind::InsertDelete);
    Load { writers: 4, think: Duration::from_millis(5), mix, ..Load::default() }
}

/// A database with a publication and without a slot.
async fn prepared() -> (Fixture, DatabaseSession) {
    let fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.execute("SELECT pg_drop_replication_slot($1)", &[&SLOT]).await.unwrap();
    (fixture, session)
}

/// The command line, as a superuser.
fn line(fixture: &Fixture, more: &[&str]) -> Vec<String> {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = [&["setup", "--apply"], more, &["--admin-url", &url]].concat();
    line.into_iter().map(str::to_owned).collect()
}

/// Runs the command to its end. Returns its exit code and what it says.
async fn setup(fixture: &Fixture, more: &[&str]) -> (Option<i32>, String) {
    let line = line(fixture, more);
    typed(fixture, &line.iter().map(String::as_str).collect::<Vec<_>>()).await
}

/// Runs a command, with these arguments, to its end. Returns its exit code and its output.
async fn typed(fixture: &Fixture, line: &[&str]) -> (Option<i32>, String) {
    let output = fixture.router.command(line).await.unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    (output.status.code(), format!("{out}{err}"))
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

/// Rows of the first story; `OUTBOX_BACKFILL_ROWS=1000000` is the long form of docs/testing.md.
const ROWS: i32 = 20_000;
/// So many rows are written in one transaction.
const AT_ONCE: i32 = 20_000;

#[tokio::test]
async fn each_row_comes_once_in_the_tables_part_or_in_the_stream_while_writers_go_on() {
    let rows = std::env::var("OUTBOX_BACKFILL_ROWS");
    let rows: i32 = rows.ok().map_or(ROWS, |rows| rows.parse().unwrap());
    let (mut fixture, session) = prepared().await;
    for _ in 0..rows / AT_ONCE {
        write(&fixture, &session, AT_ONCE).await;
    }
    let running = fixture.load(load());
    wait_committed(&running, 300).await.unwrap();
    let begun = Instant::now();
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    println!("after {:?}: {said}", begun.elapsed());
    assert!(said.contains("rows of public.outbox") && said.contains("witness: created"), "{said}");
    wait_committed(&running, 300).await.unwrap();
    fixture.restart().await.unwrap();
    wait_committed(&running, 300).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(LONG_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
    let status = fixture.router.status().await.unwrap();
    assert!(status.pointer("/witness/began_without").is_some_and(serde_json::Value::is_null));

    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("back-fill: complete already"), "{said}");
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
}

#[tokio::test]
async fn only_the_rows_of_a_condition_are_sent() {
    let (mut fixture, session) = prepared().await;
    session.batch_execute("ALTER TABLE outbox ADD published_at timestamptz").await.unwrap();
    write(&fixture, &session, 1_000).await;
    session
        .batch_execute("UPDATE outbox SET published_at = now() WHERE (payload->>'n')::int <= 900")
        .await
        .unwrap();
    let condition = "published_at is null -- the poller's";
    let (exit, said) = setup(&fixture, &["--backfill", "--where", condition]).await;
    assert_eq!(exit, Some(0), "{said}");
    fixture.restart().await.unwrap();
    write(&fixture, &session, 50).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let seen = fixture.seen().await.unwrap();
    assert_eq!(seen.len(), 150, "{said}");
}
