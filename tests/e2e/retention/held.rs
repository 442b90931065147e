//! Events that wait for a person.

use serde_json::Value;
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};

use e2e::{Fixture, ROLE, SHORT_DEADLINE, create_event_function, postgres_version};
use testbed::wait::eventually;

use super::{NEEDED, builder, cleanup, count, grant, wait_left, wait_swept};

async fn ids(session: &DatabaseSession, sql: &str) -> Vec<String> {
    session.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn run(fixture: &Fixture, line: &[&str]) {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = [line, &["--admin-url", url.as_str()]].concat();
    let output = fixture.router.command(&line).await.unwrap();
    assert!(output.status.success(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
}

const OPEN: &str = "SELECT event_id FROM outbox_router.held \
                    WHERE state IN ('held', 'requeued', 'dropping') ORDER BY 1";

/// A router that holds eleven events of a key behind a dead letter.
async fn holding() -> (Fixture, DatabaseSession) {
    holding_by("id", "").await
}

/// The same, with this column for the id, in a table that was altered.
async fn holding_by(id: &str, alter: &str) -> (Fixture, DatabaseSession) {
    let builder = builder()
        .set("on_error.bad_row", "dead_letter")
        .set("dead_letters.topic", "")
        .set("retention.abandoned_keep", "1h")
        .set_outbox("columns.id", id);
    let mut fixture = builder.prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute(alter).await.unwrap();
    session.batch_execute(NEEDED).await.unwrap();
    grant(&session).await;
    create_event_function(&session).await.unwrap();
    run(&fixture, &["setup", "--apply", "--dead-letters", "--skip-kafka"]).await;
    session
        .batch_execute(&format!(
            "GRANT DELETE ON outbox_router.held, outbox_router.decision TO {ROLE}"
        ))
        .await
        .unwrap();
    fixture.start_accepted().await.unwrap();
    session
        .batch_execute(
            "SELECT testbed.event(1 + n % 20) FROM generate_series(1, 200) n; \
             INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers) \
               SELECT type, id, 'Poison', '{}', '[7]' FROM testbed.aggregate WHERE n = 7; \
             SELECT testbed.event(1 + n % 20) FROM generate_series(1, 200) n",
        )
        .await
        .unwrap();
    eventually(SHORT_DEADLINE, "held events", async || {
        Ok((ids(&session, OPEN).await.len() == 11).then_some(()))
    })
    .await
    .unwrap();
    (fixture, session)
}

#[tokio::test]
async fn a_row_whose_event_is_a_dead_letter_or_held_behind_one_stays_until_it_is_decided() {
    let (mut fixture, session) = holding().await;
    let held = ids(&session, OPEN).await;
    wait_left(&session, 11).await;
    wait_swept(&mut fixture).await;
    assert_eq!(ids(&session, "SELECT id::text FROM outbox ORDER BY 1").await, held);

    run(&fixture, &["dead-letters", "drop", "--all", "--yes"]).await;
    wait_left(&session, 0).await;
    assert_eq!(ids(&session, OPEN).await, Vec::<String>::new());
    // Closed events stay for people, for as long as is configured.
    assert_eq!(count(&session, "outbox_router.held").await, 11);
    session
        .batch_execute("UPDATE outbox_router.held SET closed_at = closed_at - interval '2 hours'")
        .await
        .unwrap();
    // The first sweep of a process looks for them; the witness and the table still agree.
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    eventually(SHORT_DEADLINE, "an empty table of held events", async || {
        Ok((count(&session, "outbox_router.held").await == 0).then_some(()))
    })
    .await
    .unwrap();
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    let status = fixture.router.status().await.unwrap();
    assert_eq!(status["reason"], serde_json::Value::Null, "{status}");
}

/// Where PostgreSQL publishes stored generated columns.
#[tokio::test]
async fn a_row_stays_by_an_id_that_the_server_computes() {
    if postgres_version().unwrap() < 18 {
        return;
    }
    let alter = "ALTER TABLE outbox ADD code text GENERATED ALWAYS AS ('e-' || id::text) STORED; \
                 ALTER PUBLICATION outbox_router SET (publish_generated_columns = stored)";
    let (mut fixture, session) = holding_by("code", alter).await;
    let held = ids(&session, OPEN).await;
    assert!(held.iter().all(|id| id.starts_with("e-")), "{held:?}");
    wait_left(&session, 11).await;
    wait_swept(&mut fixture).await;
    assert_eq!(ids(&session, "SELECT code FROM outbox ORDER BY 1").await, held);
    run(&fixture, &["dead-letters", "drop", "--all", "--yes"]).await;
    wait_left(&session, 0).await;
}

/// A cast to text would cut the blanks of such an id.
#[tokio::test]
async fn the_only_whole_copy_of_a_row_that_is_too_large_stays_by_a_padded_id() {
    let builder = builder()
        .set("on_error.too_large", "dead_letter")
        .set("dead_letters.topic", "")
        .set("limits.row_bytes", "1MiB");
    let mut fixture = builder.prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let padded = "ALTER TABLE outbox ALTER id DROP DEFAULT, ALTER id TYPE char(20)";
    session.batch_execute(padded).await.unwrap();
    session.batch_execute(NEEDED).await.unwrap();
    grant(&session).await;
    run(&fixture, &["setup", "--apply", "--dead-letters", "--skip-kafka"]).await;
    fixture.start_accepted().await.unwrap();
    session
        .batch_execute(
            "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload) \
             SELECT id, 'order', key, 'Changed', jsonb_build_object('pad', repeat('x', size)) \
             FROM (VALUES ('evt-1', 'a', 2 << 20), ('evt-2', 'b', 1), ('evt-3', 'c', 1)) \
               AS event(id, key, size)",
        )
        .await
        .unwrap();
    wait_left(&session, 1).await;
    wait_swept(&mut fixture).await;
    let whole = ["evt-1               "];
    assert_eq!(ids(&session, "SELECT format('%s', id) FROM outbox").await, whole);
    let held = "SELECT event_id FROM outbox_router.held WHERE code = 'R005'";
    assert_eq!(ids(&session, held).await, whole);
    run(&fixture, &["dead-letters", "drop", "--all", "--yes"]).await;
    wait_left(&session, 0).await;
}

/// The table of held events says which rows are kept, and no router has noticed yet that it lost
/// some.
#[tokio::test]
async fn rows_stay_whose_events_are_gone_from_the_table_of_held_events() {
    let (mut fixture, session) = holding().await;
    wait_left(&session, 11).await;
    session.batch_execute("DELETE FROM outbox_router.held").await.unwrap();
    let refused = |status: &Value| {
        let failure = status.pointer("/retention/failure");
        failure
            .is_some_and(|failure| failure.to_string().contains("open events that it should have"))
    };
    fixture.router.wait_status("a refusal", SHORT_DEADLINE, refused).await.unwrap();
    assert_eq!(count(&session, "outbox").await, 11);
    fixture.router.sigterm().unwrap();
    fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let output =
        fixture.router.command(&["cleanup", "--yes", "--admin-url", url.as_str()]).await.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("P037"), "{text}");
    assert_eq!(count(&session, "outbox").await, 11);
    // A person says that they are gone, and the table's own number says so, too, from then on.
    run(&fixture, &["accept", "--yes"]).await;
    fixture.restart().await.unwrap();
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    wait_left(&session, 0).await;
}

/// It is dropped, or a database is restored without it.
#[tokio::test]
async fn rows_stay_while_the_table_of_held_events_is_gone_until_a_person_accepts_that() {
    let (mut fixture, session) = holding().await;
    wait_left(&session, 11).await;
    session.batch_execute("DROP SCHEMA outbox_router CASCADE").await.unwrap();
    let gone = "outbox_router.held does not exist; it had 11 open events";
    // It finds out by its next sweep, or by its next look for decisions.
    let refused = |status: &Value| {
        let reason = status.pointer("/reason/code").and_then(Value::as_str) == Some("P036");
        let failure = status.pointer("/retention/failure");
        reason || failure.is_some_and(|failure| failure.to_string().contains(gone))
    };
    fixture.router.wait_status("a refusal", SHORT_DEADLINE, refused).await.unwrap();
    let (code, text) = cleanup(&fixture, &[]).await;
    assert_eq!(code, Some(1), "beside the router: {text}");
    assert!(text.contains(gone), "{text}");
    fixture.router.sigterm().unwrap();
    fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    for more in [&[][..], &["--older"], &["--set", "retention.mode=archive"]] {
        let (code, text) = cleanup(&fixture, more).await;
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("P036") && text.contains(gone), "{text}");
    }
    run(&fixture, &["setup", "--apply", "--dead-letters", "--skip-kafka"]).await;
    let (code, text) = cleanup(&fixture, &[]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("P037@"), "{text}");
    assert_eq!(count(&session, "outbox").await, 11);
    grant(&session).await;
    run(&fixture, &["accept", "--yes"]).await;
    let (code, text) = cleanup(&fixture, &[]).await;
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(count(&session, "outbox").await, 0);
}
