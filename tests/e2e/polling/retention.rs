//! Published rows leave their table beside the worker; what is not published stays.

use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;

use super::{DEADLINE, polling, started, wait_none};

const COLUMNS: &str = "alter table outbox \
    add n bigint generated always as identity, \
    add published_at timestamptz, \
    add abandoned_at timestamptz; \
    create index on outbox (published_at)";

#[tokio::test]
async fn published_rows_leave_and_a_row_that_cannot_be_delivered_stays() {
    let builder = polling()
        .set("retention.mode", "delete")
        .set("retention.keep", "0s")
        .set("retention.interval", "1s")
        .set("retention.batch", 7);
    let fixture = started(builder, COLUMNS).await;
    let session = fixture.session().await.unwrap();
    // Headers that are no object (R009); then a row of its key, and rows of other keys.
    session
        .batch_execute(
            "insert into outbox (aggregate_type, aggregate_id, event_type, payload, headers) \
               values ('order', 'a', 'Made', '{}', '[1]'), ('order', 'a', 'Made', '{}', '{}'); \
             insert into outbox (aggregate_type, aggregate_id, event_type, payload) \
               select 'order', 'k' || i, 'Made', '{}' from generate_series(1, 100) i",
        )
        .await
        .unwrap();
    eventually(DEADLINE, "published rows have left", async || {
        let query = "select count(*), count(published_at) from outbox";
        let row = session.query_one(query, &[]).await?;
        Ok((row.get::<_, i64>(0) == 2 && row.get::<_, i64>(1) == 0).then_some(()))
    })
    .await
    .unwrap();
    eventually(DEADLINE, "the removed rows are counted", async || {
        let removed = fixture.router.metric("outbox_retention_deleted_total", "").await?;
        Ok((removed == Some(100.0)).then_some(()))
    })
    .await
    .unwrap();
    let keys = "select string_agg(distinct aggregate_id, ' ') from outbox";
    let left: String = session.query_one(keys, &[]).await.unwrap().get(0);
    assert_eq!(left, "a", "the bad row, and the row behind it");
}

/// Rows of a table that does not say since when a row is abandoned.
const STATUS_COLUMNS: &str = "alter table outbox \
    add n bigint generated always as identity, \
    add status text not null default 'PENDING', \
    add attempts int not null default 0, \
    add available_at timestamptz not null default now(), \
    add published_at timestamptz; \
    create index on outbox (published_at)";

/// Writes a row of forty days ago.
async fn insert_old(session: &DatabaseSession, key: &str, status: &str, headers: &str) {
    let sql = format!(
        "insert into outbox (aggregate_type, aggregate_id, event_type, payload, headers, status, \
           created_at, available_at, published_at) \
         select 'order', '{key}', 'Made', '{{}}', '{headers}', '{status}', at, at, \
           case '{status}' when 'PUBLISHED' then at end \
         from (select now() - interval '40 days') as old(at)"
    );
    session.batch_execute(&sql).await.unwrap();
}

/// As of a backlog that a new installation takes over, with the rows that a former poller has
/// given up: all of them are older than `keep` and `abandoned_keep` when they are first seen.
#[tokio::test]
async fn an_old_row_that_is_abandoned_stays_and_is_listed_while_published_rows_leave() {
    let builder = polling()
        .set("on_error.bad_row", "dead_letter")
        .set("retry.max_attempts", 1)
        .set("retention.mode", "delete")
        .set("retention.keep", "7d")
        .set("retention.interval", "1s")
        .set_outbox("mark.failed", "PENDING")
        .set_outbox("mark.abandoned", "FAILED");
    let fixture = started(builder, STATUS_COLUMNS).await;
    let session = fixture.session().await.unwrap();
    insert_old(&session, "former", "FAILED", "{}").await;
    insert_old(&session, "bad", "PENDING", "[1]").await;
    insert_old(&session, "bad", "PENDING", "{}").await;
    insert_old(&session, "good", "PENDING", "{}").await;
    wait_none(&session, "aggregate_id = 'good' and published_at is null").await.unwrap();
    wait_none(&session, "headers = '[1]' and status <> 'FAILED'").await.unwrap();
    // Each leaves by a sweep that begins later.
    for _ in 0..3 {
        insert_old(&session, "published", "PUBLISHED", "{}").await;
        wait_none(&session, "aggregate_id = 'published'").await.unwrap();
    }
    let rows = "select string_agg(aggregate_id || ' ' || status, ', ' order by n) from outbox";
    let rows: String = session.query_one(rows, &[]).await.unwrap().get(0);
    assert_eq!(rows, "former FAILED, bad FAILED, bad PENDING, good PUBLISHED");

    let output = fixture.router.command(&["dead-letters", "list"]).await.unwrap();
    let listed = String::from_utf8_lossy(&output.stdout);
    let failed = session.query("select id::text from outbox where status = 'FAILED'", &[]).await;
    for id in failed.unwrap().iter().map(|row| row.get::<_, String>(0)) {
        assert!(listed.contains(&id), "{id} is not in:\n{listed}");
    }
}
