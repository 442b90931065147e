//! A copy of the database that takes its place, and that was written to while the router read the
//! former one: its system identifier, its OIDs and its transaction ids are those of the former one.

use e2e::{SHORT_DEADLINE, SLOT};
use serde_json::Value;
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};

use super::{builder, cleanup, count, started, wait_left, wait_swept};

const COPIED: i64 = 3;

async fn write(session: &DatabaseSession, rows: i64, created_at: &str) {
    let sql = format!(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at) \
         SELECT 'order', 'key-' || n % 3, 'Changed', '{{}}', {created_at} \
         FROM generate_series(1, {rows}) n"
    );
    session.batch_execute(&sql).await.unwrap();
}

/// Runs a statement about the whole database, without sessions in it.
async fn alone(session: &DatabaseSession, sql: &str) {
    let end = format!(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{DATABASE}'"
    );
    session.batch_execute(&end).await.unwrap();
    session.batch_execute(sql).await.unwrap();
}

#[tokio::test]
async fn rows_of_a_copy_that_takes_the_databases_place_stay_until_a_person_gives_them_up() {
    let (mut fixture, session) = started(builder()).await;
    write(&session, 5, "now()").await;
    wait_left(&session, 0).await;
    fixture.kill_router().await.unwrap();
    drop(session);
    let server = fixture.postgres.connect_to("postgres").await.unwrap();
    alone(&server, &format!("CREATE DATABASE copy TEMPLATE {DATABASE}")).await;
    let copy = fixture.postgres.connect_to("copy").await.unwrap();
    // The exchange is hours after that.
    write(&copy, COPIED, "now() - interval '5 hours'").await;
    drop(copy);

    fixture.router.start_again().unwrap();
    fixture.wait_streaming().await.unwrap();
    let session = fixture.session().await.unwrap();
    for _ in 0..4 {
        write(&session, 2, "now()").await;
        // It logs which transactions run, and with that the slot's horizon advances.
        server.batch_execute("CHECKPOINT").await.unwrap();
        wait_left(&session, 0).await;
        wait_swept(&mut fixture).await;
    }
    // In order: so the witness has the last transaction ids.
    fixture.router.sigterm().unwrap();
    fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    drop(session);
    server.batch_execute(&format!("SELECT pg_drop_replication_slot('{SLOT}')")).await.unwrap();
    alone(&server, &format!("ALTER DATABASE {DATABASE} RENAME TO former")).await;
    server.batch_execute(&format!("ALTER DATABASE copy RENAME TO {DATABASE}")).await.unwrap();

    fixture.router.start_again().unwrap();
    let is_recorded = |status: &Value| {
        status["state"] == "failed"
            && status.pointer("/witness/gaps_recorded") == Some(&true.into())
    };
    fixture.router.wait_status("a gap", SHORT_DEADLINE, is_recorded).await.unwrap();
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = ["recover", "--yes", "--admin-url", &url];
    let output = fixture.router.command(&line).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("older by their times, and not compared: 3;"), "{said}");
    fixture.wait_streaming().await.unwrap();
    let session = fixture.session().await.unwrap();
    write(&session, 4, "now()").await;
    wait_left(&session, COPIED).await;
    wait_swept(&mut fixture).await;
    let old = "outbox WHERE created_at < now() - interval '4 hours'";
    assert_eq!((count(&session, "outbox").await, count(&session, old).await), (COPIED, COPIED));
    let (code, text) = cleanup(&fixture, &["--older"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(count(&session, "outbox").await, 0, "a person has given them up");
}
