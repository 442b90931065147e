//! `skip`: by default a poisoned row stops the router, and a person gives up this one row.

use std::process::Output;

use e2e::{Fixture, SHORT_DEADLINE, create_event_function, text};
use testbed::postgres::{DATABASE, DatabaseSession, PostgresServer, SUPERUSER, ShutdownMode};

use super::{committed_of, delivered_of, make_tables, write, write_poison};

/// Waits until the router stands at a row, and returns where.
async fn wait_stopped(fixture: &mut Fixture, not_at: Option<&str>) -> String {
    let status = fixture
        .router
        .wait_status("a row that stops the router", SHORT_DEADLINE, |status| {
            text(status, "/state") == Some("failed") && text(status, "/reason/lsn") != not_at
        })
        .await
        .unwrap();
    assert_eq!(text(&status, "/reason/code"), Some("R009"), "{status}");
    let lsn = text(&status, "/reason/lsn").unwrap();
    let hint = text(&status, "/reason/hint").unwrap();
    assert!(
        hint.contains(&format!("outbox-router skip --lsn {lsn} --id "))
            && !hint.contains("--id ID"),
        "{hint}"
    );
    lsn.to_owned()
}

async fn skip(fixture: &Fixture, lsn: &str, id: &str, how: &str) -> (Output, String) {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = ["skip", "--lsn", lsn, "--id", id, "--by", "ann", how, "--admin-url", url.as_str()];
    let output = fixture.router.command(&line).await.unwrap();
    let [out, err] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    (output, out + &err)
}

async fn poison_of(session: &DatabaseSession, key: i32) -> String {
    let sql = "SELECT id::text FROM outbox WHERE event_type = 'Poison' AND aggregate_id = $1";
    session.query_one(sql, &[&format!("order-{key}")]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_person_skips_the_one_row_that_stops_the_router_while_it_runs() {
    let [first, second] = [7, 8];
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    create_event_function(&session).await.unwrap();
    fixture.restart().await.unwrap();
    write(&session, 200).await;
    let before = committed_of(&fixture, second).await;
    write_poison(&session, first).await;
    write(&session, 200).await;
    let lsn = wait_stopped(&mut fixture, None).await;
    let id = poison_of(&session, first).await;

    // The tables that it needs are made while the router runs.
    let (missing, told) = skip(&fixture, &lsn, &id, "--yes").await;
    assert_eq!(missing.status.code(), Some(1), "{told}");
    assert!(told.contains("P036") && told.contains("--dead-letters"), "{told}");
    make_tables(&fixture).await;
    let (refused, told) = skip(&fixture, &lsn, "another", "--yes").await;
    assert_eq!(refused.status.code(), Some(1), "{told}");
    let stands =
        format!("stands at the row with id {id}, and not at the row with id another: R009: ");
    assert!(told.contains(&stands), "{told}");
    assert_eq!(delivered_of(&fixture, second).await, before, "it stands at the row");

    let (skipped, told) = skip(&fixture, &lsn, &id, "--yes").await;
    assert_eq!(skipped.status.code(), Some(0), "{told}");
    assert!(told.contains("the router stands there: R009: "), "{told}");
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    let (again, told) = skip(&fixture, &lsn, &id, "--yes").await;
    assert_eq!(again.status.code(), Some(0), "{told}");
    assert!(told.contains(" already, by ann as "), "{told}");

    // Another row stops it again, and has to be decided about again.
    write_poison(&session, second).await;
    write(&session, 200).await;
    let next = wait_stopped(&mut fixture, Some(&lsn)).await;
    let (skipped, told) = skip(&fixture, &next, &poison_of(&session, second).await, "--yes").await;
    assert_eq!(skipped.status.code(), Some(0), "{told}");
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();

    // The checker takes a poisoned row for a phantom.
    let result = fixture.check().await.unwrap().clean().unwrap();
    println!("{result}");
    assert_eq!(result.duplicates, 0);
    let counted = fixture.router.metric("outbox_rows_skipped_total", "").await.unwrap();
    assert_eq!(counted, Some(2.0));
    let log = fixture.router.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("a row is skipped")).collect();
    assert!(lines.len() == 2 && lines[0].contains(&id) && lines[0].contains(&lsn), "{lines:?}");
    let decisions = "SELECT count(*) FROM outbox_router.decision WHERE action = 'skip'";
    let decisions: i64 = session.query_one(decisions, &[]).await.unwrap().get(0);
    assert_eq!(decisions, 2);
}

/// The server that takes over has the row, and lacks the last commits: that of the decision.
#[tokio::test]
async fn a_decision_is_missed_on_a_server_that_was_promoted_without_it() {
    let (mut fixture, copy) = skipped_since_a_copy().await;
    fixture.fail_over_to(copy).await.unwrap();
    expect_missed(&mut fixture, "the server has 0 of 1 writes of notes").await;
}

/// The storage fails over to a copy: its timeline is the same, and others write past the position
/// of the decision before a router looks.
#[tokio::test]
async fn a_decision_is_missed_on_a_copy_of_the_storage_whose_wal_is_longer_again() {
    let (mut fixture, copy) = skipped_since_a_copy().await;
    let known = fixture.postgres.current_wal_lsn().await.unwrap();
    fixture.restore_from(copy).await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute("CREATE TABLE others (text text)").await.unwrap();
    while fixture.postgres.current_wal_lsn().await.unwrap() <= known {
        let write = "INSERT INTO others SELECT repeat('x', 500) FROM generate_series(1, 20000)";
        session.batch_execute(write).await.unwrap();
    }
    expect_missed(&mut fixture, "the server has 0 of 1 writes of notes").await;
}

/// A router that has passed a row which a person skipped, and a copy of the server from before.
async fn skipped_since_a_copy() -> (Fixture, PostgresServer) {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    create_event_function(&session).await.unwrap();
    make_tables(&fixture).await;
    fixture.restart().await.unwrap();
    write(&session, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    write_poison(&session, 7).await;
    let lsn = wait_stopped(&mut fixture, None).await;
    let id = poison_of(&session, 7).await;
    fixture.kill_router().await.unwrap();
    fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    let copy = fixture.postgres.copied(&[]).await.unwrap();
    fixture.postgres.start_again().await.unwrap();
    fixture.router.start_again().unwrap();
    wait_stopped(&mut fixture, None).await;
    let (skipped, told) = skip(&fixture, &lsn, &id, "--yes").await;
    assert_eq!(skipped.status.code(), Some(0), "{told}");
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    (fixture, copy)
}

async fn expect_missed(fixture: &mut Fixture, what: &str) {
    fixture.router.start_again().unwrap();
    let is_missed = |status: &serde_json::Value| {
        let message = text(status, "/reason/message");
        text(status, "/reason/code") == Some("P015")
            && message.is_some_and(|message| message.contains(what))
    };
    fixture.router.wait_status("P015 of the decision", SHORT_DEADLINE, is_missed).await.unwrap();
}
