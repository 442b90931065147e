//! A commit that waits for a synchronous standby is in the WAL, so a slot has it, and no query sees
//! it yet.

use std::time::Duration;

use e2e::{Fixture, ROLE};
use testbed::postgres::{DATABASE, DatabaseSession};

use super::super::{DEADLINE, insert, wait_none};
use super::command::{Command, wait_for_row};
use super::{begun, configure, stop, switch, switched};

/// Nobody waits for a standby but who says so, and there is none.
const NOBODY_ANSWERS: [&str; 3] = [
    "alter database shop set synchronous_commit = local",
    "alter system set synchronous_standby_names = 'nobody'",
    "select pg_reload_conf()",
];

async fn standby_is_missed(fixture: &Fixture) {
    let session = fixture.session().await.unwrap();
    for statement in NOBODY_ANSWERS {
        session.batch_execute(statement).await.unwrap();
    }
}

async fn standby_answers(session: &DatabaseSession) {
    session.batch_execute("alter system reset synchronous_standby_names").await.unwrap();
    session.batch_execute("select pg_reload_conf()").await.unwrap();
}

/// Begins to insert a row, whose commit waits.
async fn begin_to_insert(
    observer: &DatabaseSession,
    inserting: &mut (impl Future<Output = ()> + Unpin),
) {
    assert!(tokio::time::timeout(Duration::from_millis(100), inserting).await.is_err());
    let waits = "pg_stat_activity where wait_event = 'SyncRep'";
    wait_for_row(observer, "the commit to wait for a standby", waits).await;
}

/// Its own commits would wait while nobody polls.
#[tokio::test]
async fn without_the_standby_that_commits_wait_for_a_switch_is_refused() {
    let (fixture, _) = begun().await;
    let session = fixture.session().await.unwrap();
    for statement in &NOBODY_ANSWERS[1..] {
        session.batch_execute(statement).await.unwrap();
    }
    let (exit, said) = switch(&fixture, "stream", "--yes").await;
    // Who may not see standbys is told that nobody looked.
    let url = fixture.postgres.url(ROLE, DATABASE);
    let line = ["switch", "stream", "--dry-run", "--admin-url", &url];
    let output = fixture.router.command(&line).await.unwrap();
    standby_answers(&session).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("synchronous_standby_names is 'nobody'"), "{said}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("may not see whether it is there"), "{said}");
    assert!(said.contains(&format!("grant pg_read_all_stats to {ROLE}")), "{said}");
    let closed = "select from outbox_router.switch";
    assert!(session.query_opt(closed, &[]).await.unwrap().is_none());
}

/// The snapshot of the slot sees the row, so that the stream does not send it.
#[tokio::test]
async fn a_row_that_only_the_slots_snapshot_sees_is_sent_before_the_stream_begins() {
    let (mut fixture, _) = begun().await;
    stop(&mut fixture.router).await;
    standby_is_missed(&fixture).await;
    let observer = fixture.session().await.unwrap();
    let [first, second, writer] = [
        fixture.session().await.unwrap(),
        fixture.session().await.unwrap(),
        fixture.session().await.unwrap(),
    ];
    let begin = "begin; select pg_current_xact_id()";
    first.batch_execute(begin).await.unwrap();
    let mut command = Command::start(&fixture, "stream");
    command.says("waits for transactions that are open").await;
    // A slot finds where to begin in two steps, and waits for what is open at each. What is
    // committed after the first one is seen by its snapshot.
    second.batch_execute(begin).await.unwrap();
    let xid = second.query_one("select pg_current_xact_id()::text", &[]).await.unwrap();
    let xid: String = xid.get(0);
    first.batch_execute("commit").await.unwrap();
    let waits = format!("pg_locks where not granted and transactionid::text = '{xid}'");
    wait_for_row(&observer, "the slot to wait for the second transaction", &waits).await;
    writer.batch_execute("set synchronous_commit = on").await.unwrap();
    let mut inserting = Box::pin(insert(&writer, "a", "{}"));
    begin_to_insert(&observer, &mut inserting).await;
    second.batch_execute("commit").await.unwrap();

    command.says("pending rows: 1 are older than the slot").await;
    command.says("waiting for them").await;
    command.says("commits, and waits for a synchronous standby").await;
    standby_answers(&observer).await;
    inserting.await;
    command.succeeds().await;
    wait_none(&observer, "published_at is null").await.unwrap();
}

/// The stream has delivered the row. A worker would send it again.
#[tokio::test]
async fn a_row_that_the_stream_has_delivered_before_it_is_seen_is_marked() {
    let (mut fixture, configurations) = begun().await;
    stop(&mut fixture.router).await;
    standby_is_missed(&fixture).await;
    switched(&fixture, "stream").await;
    configure(&mut fixture, &configurations.stream);
    fixture.restart().await.unwrap();
    let observer = fixture.session().await.unwrap();
    let writer = fixture.session().await.unwrap();
    writer.batch_execute("set synchronous_commit = on").await.unwrap();
    let mut inserting = Box::pin(insert(&writer, "a", "{}"));
    begin_to_insert(&observer, &mut inserting).await;
    let is_delivered = |status: &serde_json::Value| status["totals"]["events_acked"] == 1;
    fixture.router.wait_status("delivered", DEADLINE, is_delivered).await.unwrap();
    stop(&mut fixture.router).await;

    configure(&mut fixture, &configurations.polling);
    let mut command = Command::start(&fixture, "polling");
    command.says("waiting for them").await;
    standby_answers(&observer).await;
    inserting.await;
    command.succeeds().await;
    wait_none(&observer, "published_at is null").await.unwrap();
}
