//! Which position is confirmed, to the byte; and what a kill there has sent again.

use e2e::{Fixture, Interruptions, SHORT_DEADLINE, create_event_function};
use serde_json::Value;
use testbed::load::COMMITTED;
use testbed::postgres::DatabaseSession;
use testbed::proxy::{Direction, ProxyMode};
use testbed::wait::eventually;
use tokio_postgres::types::PgLsn;

/// WAL that is no event.
async fn write_other_wal(session: &DatabaseSession) {
    let sql = "CREATE TABLE IF NOT EXISTS other (text text);
               INSERT INTO other SELECT repeat(md5(g::text), 8) FROM generate_series(1, 100) g";
    session.batch_execute(sql).await.unwrap();
}

async fn position(session: &DatabaseSession, query: &str) -> PgLsn {
    session.query_one(query, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_transaction_whose_commit_record_starts_at_the_confirmed_position_is_sent() {
    const ATTEMPTS: usize = 10;
    // Nothing may write between the position that is confirmed and the commit.
    let mut fixture = Fixture::builder()
        .postgres("autovacuum", "off")
        .postgres("checkpoint_timeout", "1h")
        .postgres("bgwriter_delay", "10s")
        .start()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    create_event_function(&session).await.unwrap();
    session.batch_execute("SELECT testbed.event(1)").await.unwrap();
    let open = fixture.session().await.unwrap();
    open.batch_execute("BEGIN; SELECT testbed.event(2)").await.unwrap();

    // A keepalive is confirmed although a transaction is open: the server sends that one when it
    // commits.
    let mut attempt = 0;
    loop {
        write_other_wal(&session).await;
        fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
        fixture.kill_router().await.unwrap();
        let confirmed = fixture.confirmed().await.unwrap();
        let end = position(&open, "SELECT pg_current_wal_insert_lsn()").await;
        assert!(confirmed <= end, "{confirmed} is confirmed, and the next record begins at {end}");
        if confirmed == end {
            break;
        }
        attempt += 1;
        assert!(
            attempt < ATTEMPTS,
            "{ATTEMPTS} attempts, and {confirmed} is confirmed again where {end} is the end"
        );
        fixture.restart().await.unwrap();
    }
    open.batch_execute("COMMIT").await.unwrap();

    fixture.restart().await.unwrap();
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!((result.sent, result.duplicates), (2, 0));
}

/// The last status update that the walsender received: the write position and the flush position.
async fn last_status_update(session: &DatabaseSession) -> Option<(PgLsn, PgLsn)> {
    let sql = "SELECT write_lsn, flush_lsn FROM pg_stat_replication WHERE write_lsn IS NOT NULL";
    let row = session.query_opt(sql, &[]).await.unwrap()?;
    Some((row.get(0), row.get(1)))
}

#[tokio::test]
async fn a_keepalive_is_not_confirmed_while_an_event_before_it_is_unacknowledged() {
    let mut fixture = Fixture::builder().proxied_kafka().track_commits().start().await.unwrap();
    let session = fixture.session().await.unwrap();
    create_event_function(&session).await.unwrap();
    session.batch_execute("SELECT testbed.event(1)").await.unwrap();
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();

    fixture.kafka_proxy().unwrap().set(ProxyMode::Pause(Direction::Both)).await.unwrap();
    let before = fixture.postgres.current_wal_lsn().await.unwrap();
    session.batch_execute("SELECT testbed.event(2)").await.unwrap();
    let after = fixture.postgres.current_wal_lsn().await.unwrap();
    let waits = |status: &Value| status["window"]["unacked_events"] == 1;
    fixture
        .router
        .wait_status("an event without an acknowledgement", SHORT_DEADLINE, waits)
        .await
        .unwrap();
    write_other_wal(&session).await;
    let end = fixture.postgres.current_wal_lsn().await.unwrap();
    // The stream continues, and the same status update reports what was received and what is
    // confirmed.
    let (written, flushed) = eventually(SHORT_DEADLINE, "a status beyond the event", async || {
        Ok(last_status_update(&session).await.filter(|(written, _)| *written >= end))
    })
    .await
    .unwrap();
    assert!(
        flushed < after,
        "{flushed} of {written} was confirmed, and the unacknowledged event lies after {before}"
    );
    fixture.kill_router().await.unwrap();
    assert!(fixture.confirmed().await.unwrap() < after);
    assert_eq!(fixture.check_confirmed_events_are_in_kafka().await.unwrap(), 1);

    fixture.kafka_proxy().unwrap().set(ProxyMode::Forward).await.unwrap();
    fixture.restart().await.unwrap();
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
}

/// COPY of so many events into the outbox, by the server's own file: many of its rows share one
/// LSN.
async fn copy(fixture: &Fixture, rows: usize) {
    let file = fixture.postgres.data_dir().join("copied").display().to_string();
    let columns = "id, aggregate_type, aggregate_id, event_type, payload";
    let sql = format!(
        "BEGIN;
         CREATE TEMPORARY TABLE staged ON COMMIT DROP AS
             SELECT gen_random_uuid() AS id, type AS aggregate_type, a.id AS aggregate_id,
                 'Copied' AS event_type, jsonb_build_object('seq', g) AS payload, g::int8 AS seq
             FROM testbed.aggregate a, generate_series(1, {rows} / {keys}) g ORDER BY g, a.n;
         COPY (SELECT {columns} FROM staged ORDER BY seq, aggregate_id) TO '{file}';
         COPY outbox ({columns}) FROM '{file}';
         INSERT INTO {COMMITTED} ({columns_of_committed}, seq)
             SELECT id, aggregate_type, aggregate_id, event_type, octet_length(payload::text),
                 sha256(convert_to(payload::text, 'UTF8')), seq FROM staged;
         COMMIT",
        keys = fixture.schema.aggregates,
        columns_of_committed =
            "id, aggregate_type, aggregate_id, event_type, payload_bytes, payload_sha256",
    );
    fixture.session().await.unwrap().batch_execute(&sql).await.unwrap();
}

fn acked(status: &Value) -> usize {
    let acked = status.pointer("/totals/events_acked").and_then(Value::as_u64);
    usize::try_from(acked.unwrap_or_default()).unwrap()
}

#[tokio::test]
async fn a_router_killed_during_a_copy_sends_the_whole_transaction_again() {
    const ROWS: usize = 20_000;
    let mut fixture = Fixture::builder()
        .set("limits.window_events", 200)
        .track_commits()
        .prepare()
        .await
        .unwrap();
    let start = fixture.confirmed().await.unwrap();
    copy(&fixture, ROWS).await;

    let mut kills = Interruptions::default();
    for part in [0, 10, 25, 40] {
        fixture.router.start_again().unwrap();
        let far = |status: &Value| acked(status) > ROWS * part / 100;
        fixture.router.wait_status("a part of the transaction", SHORT_DEADLINE, far).await.unwrap();
        fixture.kill_router().await.unwrap();
        assert_eq!(
            fixture.check_confirmed_events_are_in_kafka().await.unwrap(),
            0,
            "the transaction had been confirmed"
        );
        assert_eq!(
            fixture.confirmed().await.unwrap(),
            start,
            "a position inside the transaction was confirmed"
        );
        kills.note(&fixture).await.unwrap();
    }
    fixture.restart().await.unwrap();
    fixture.wait_delivered(2 * SHORT_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    let duplicates = kills.duplicates(&fixture.seen().await.unwrap());
    println!("{result}\nduplicates after each kill: {duplicates:?}");
    assert_eq!((result.sent, duplicates[0]), (ROWS, 0));
    assert!(duplicates[1..].iter().all(|count| (1..=ROWS).contains(count)), "{duplicates:?}");
}

/// Three levels of savepoints and a block with an exception, each with something that stays and
/// something that does not; enough of it that a server which may stream would.
const NESTED: &str = "
    BEGIN;
    SELECT testbed.event(g % 50) FROM generate_series(1, 200) g;
    SAVEPOINT one;
    SELECT testbed.event(g % 50) FROM generate_series(1, 200) g;
    SAVEPOINT two;
    SELECT testbed.event(g % 50) FROM generate_series(1, 200) g;
    ROLLBACK TO two;
    SELECT testbed.event(g % 50) FROM generate_series(1, 200) g;
    SAVEPOINT three;
    DO $$ BEGIN
        PERFORM testbed.event(g % 50) FROM generate_series(1, 200) g;
        RAISE EXCEPTION 'no';
    EXCEPTION WHEN OTHERS THEN
        PERFORM testbed.event(g % 50) FROM generate_series(1, 100) g;
    END $$;
    RELEASE one;
    SAVEPOINT four;
    SELECT testbed.event(g % 50) FROM generate_series(1, 200) g;
    ROLLBACK TO four;
    COMMIT";

#[tokio::test]
async fn a_large_transaction_is_sent_after_its_commit_without_the_rows_of_rolled_back_savepoints() {
    const SURVIVE: usize = 700;
    let mut fixture =
        Fixture::builder().postgres("logical_decoding_work_mem", "64kB").start().await.unwrap();
    let session = fixture.session().await.unwrap();
    create_event_function(&session).await.unwrap();
    session.batch_execute(NESTED).await.unwrap();
    session.batch_execute(&NESTED.replace("COMMIT", "ROLLBACK")).await.unwrap();
    session.batch_execute(NESTED).await.unwrap();

    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!((result.sent, result.duplicates), (2 * SURVIVE, 0));
    // The server wrote it to disk when it exceeded the memory limit, because no client requested
    // streaming.
    let sql = "SELECT spill_txns, stream_txns FROM pg_stat_replication_slots \
               WHERE slot_name = 'outbox_router'";
    let (spilled, streamed): (i64, i64) =
        eventually(SHORT_DEADLINE, "spilled transactions", async || {
            let row = session.query_one(sql, &[]).await?;
            let counts: (i64, i64) = (row.get(0), row.get(1));
            Ok((counts.0 > 0).then_some(counts))
        })
        .await
        .unwrap();
    assert!(spilled >= 2, "only {spilled} transactions exceeded logical_decoding_work_mem");
    assert_eq!(streamed, 0, "the server streamed transactions before their commit");
    fixture.router.sigterm().unwrap();
    assert_eq!(fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap().code(), Some(0));
}
