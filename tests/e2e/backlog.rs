//! A long backlog, which is read by SQL: through kills, through the loss of either connection, and
//! beside a standby.

use std::time::Duration;

use e2e::{Fixture, Interruptions, SHORT_DEADLINE, largest_transaction};
use serde_json::Value;
use testbed::load::{COMMITTED, Load};
use testbed::postgres::DatabaseSession;
use testbed::router::RouterProcess;
use testbed::wait::eventually;
use tokio::time::sleep;

const DEADLINE: Duration = Duration::from_secs(180);
const WINDOW: usize = 500;

/// Commits this many transactions of one event each, of two kilobytes, in turn of `keys`
/// aggregates.
async fn write_backlog(session: &DatabaseSession, transactions: u32) {
    let function = format!(
        "CREATE OR REPLACE FUNCTION testbed.behind(of int) RETURNS void LANGUAGE sql AS $$
            WITH a AS (UPDATE testbed.aggregate t SET seq = seq + 1 WHERE t.n = of RETURNING *),
            o AS (INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
                SELECT type, id, 'Changed', jsonb_build_object('seq', seq, 'pad', \
                  (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 60)))
                FROM a RETURNING *)
            INSERT INTO {COMMITTED} (id, aggregate_type, aggregate_id, seq, event_type, \
              payload_bytes, payload_sha256)
            SELECT o.id, type, a.id, seq, event_type, octet_length(payload::text),
                sha256(convert_to(payload::text, 'UTF8')) FROM a, o $$"
    );
    session.batch_execute(&function).await.unwrap();
    let write = format!(
        "DO $$ BEGIN FOR i IN 1..{transactions} LOOP \
         PERFORM testbed.behind(i % 20); COMMIT; END LOOP; END $$"
    );
    session.batch_execute(&write).await.unwrap();
}

fn reads_by_sql(status: &Value) -> bool {
    status.pointer("/positions/backlog_by_sql_until").is_some_and(Value::is_string)
}

fn reads_the_stream(status: &Value) -> bool {
    status["state"] == "streaming" && !reads_by_sql(status)
}

async fn behind(transactions: u32) -> (Fixture, DatabaseSession) {
    let mut fixture = Fixture::builder()
        .set("limits.window_events", WINDOW)
        .track_commits()
        .start()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    // What was in flight before is not to be counted.
    fixture.kill_router().await.unwrap();
    write_backlog(&session, transactions).await;
    (fixture, session)
}

#[tokio::test]
async fn a_router_killed_while_it_reads_its_backlog_loses_nothing_and_repeats_at_most_its_window() {
    let (mut fixture, session) = behind(60_000).await;
    let mut kills = Interruptions::default();
    fixture.router.start_again().unwrap();
    for kill in 0..4 {
        let reads = fixture.router.wait_status("reading by SQL", SHORT_DEADLINE, reads_by_sql);
        reads.await.unwrap();
        sleep(Duration::from_millis(150 * kill)).await;
        fixture.kill_router().await.unwrap();
        fixture.check_confirmed_events_are_in_kafka().await.unwrap();
        kills.note(&fixture).await.unwrap();
        fixture.router.start_again().unwrap();
    }
    // Writers go on meanwhile: their events come in the stream, after the backlog.
    let running = fixture.load(Load { writers: 4, ..Load::default() });
    fixture.router.wait_status("the stream", DEADLINE, reads_the_stream).await.unwrap();
    write_backlog(&session, 10).await;
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    let duplicates = kills.duplicates(&fixture.seen().await.unwrap());
    println!("{result}\nduplicates after each kill: {duplicates:?}");
    let limit = WINDOW + largest_transaction(&fixture.truth().await.unwrap());
    assert!(duplicates.iter().all(|count| *count <= limit), "more than {limit} after one kill");
}

#[tokio::test]
async fn either_connection_may_be_lost_and_a_standby_waits() {
    let (mut fixture, session) = behind(60_000).await;
    fixture.router.start_again().unwrap();
    fixture.router.wait_status("reading by SQL", SHORT_DEADLINE, reads_by_sql).await.unwrap();
    let mut standby = RouterProcess::start(&fixture.config.to_string()).unwrap();
    standby.wait_state("standby", SHORT_DEADLINE).await.unwrap();

    // The backlog's own connections: the stream is read for a while.
    let ended = "SELECT count(pg_terminate_backend(active_pid)) FROM pg_replication_slots \
                 WHERE temporary";
    eventually(SHORT_DEADLINE, "the backlog's connection", async || {
        Ok((session.query_one(ended, &[]).await?.get::<_, i64>(0) > 0).then_some(()))
    })
    .await
    .unwrap();
    let counted = |status: &Value| {
        status.pointer("/totals/errors/P040").and_then(Value::as_u64) == Some(1)
            || status["state"] == "standby"
    };
    fixture.router.wait_status("the loss", SHORT_DEADLINE, counted).await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let temporary = "SELECT count(*) FROM pg_replication_slots WHERE temporary";
    assert_eq!(session.query_one(temporary, &[]).await.unwrap().get::<_, i64>(0), 0);

    // The stream's connection: everything begins again.
    standby.kill9().await.unwrap();
    fixture.kill_router().await.unwrap();
    write_backlog(&session, 40_000).await;
    fixture.router.start_again().unwrap();
    fixture.router.wait_status("reading by SQL", SHORT_DEADLINE, reads_by_sql).await.unwrap();
    let slot = fixture.slot().await.unwrap();
    let ended = format!("SELECT pg_terminate_backend({})", slot.active_pid.unwrap());
    session.batch_execute(&ended).await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    println!("{result}");
}

/// A router with a long backlog on a server that has so many slots, of which one is the router's,
/// delivers it. What the router has logged.
async fn log_with_slots(slots: &str) -> String {
    let mut fixture = Fixture::builder()
        .postgres("max_replication_slots", slots)
        .set("limits.window_events", WINDOW)
        .start()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    fixture.kill_router().await.unwrap();
    write_backlog(&session, 25_000).await;
    fixture.router.start_again().unwrap();
    let was_by_sql = fixture.router.wait_status("the stream", DEADLINE, reads_the_stream);
    was_by_sql.await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
    fixture.router.log()
}

#[tokio::test]
async fn without_a_free_slot_the_backlog_is_read_as_a_stream() {
    let log = log_with_slots("1").await;
    assert!(log.contains("the backlog is read as a stream"), "{log}");
}

#[tokio::test]
async fn with_one_free_slot_the_backlog_is_read_by_one_connection() {
    let log = log_with_slots("2").await;
    assert!(log.contains("the backlog is read by one connection"), "{log}");
    assert!(log.contains("the backlog is read by SQL"), "{log}");
    assert!(!log.contains("P040"), "{log}");
}

#[tokio::test]
async fn a_backlog_that_is_read_as_a_stream_says_how() {
    let (mut fixture, _session) = behind(60_000).await;
    fixture.config.set("postgres.backlog", "stream");
    fixture.rewrite_config().unwrap();
    fixture.router.start_again().unwrap();
    let is_said = |status: &Value| {
        let pause = status.pointer("/backlog_reading/read_pause_ms").and_then(Value::as_f64);
        let segment = status.pointer("/backlog_reading/segment_bytes").and_then(Value::as_f64);
        // One of the pauses that are tried; the server sends at least a message in a segment.
        [1.0, 4.0, 20.0].map(Some).contains(&pause) && segment.is_some_and(|bytes| bytes > 100.0)
    };
    let status = fixture.router.wait_status("how the backlog is read", DEADLINE, is_said).await;
    assert!(!reads_by_sql(&status.unwrap()));
    fixture.wait_delivered(DEADLINE).await.unwrap();
    let following = |status: &Value| status["backlog_reading"].is_null();
    fixture.router.wait_status("the end of the backlog", DEADLINE, following).await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
}
