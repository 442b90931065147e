//! Published rows leave their table beside the worker; what is not published stays.

use testbed::wait::eventually;

use super::{DEADLINE, polling, started};

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
