//! A topic whose `max.message.bytes` is raised while rows wait for that: no restart is needed.

use e2e::{Fixture, FixtureBuilder, SHORT_DEADLINE};
use serde_json::Value;
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};

use super::{DEADLINE, polling, started, wait_none};

const COLUMNS: &str = "alter table outbox \
    add n bigint generated always as identity, \
    add published_at timestamptz, \
    add abandoned_at timestamptz";

/// A row that the topic does not take, one behind it, and one of another key.
const ROWS: &str = "insert into outbox (aggregate_type, aggregate_id, event_type, payload) \
    select 'order', key, 'Made', jsonb_build_object('pad', \
      (select string_agg(md5(i::text), '') from generate_series(1, size) i)) \
    from (values ('a', 3200), ('a', 1), ('b', 1)) as event(key, size)";

/// A worker whose topic takes small records alone, and has one of them.
async fn waiting(builder: FixtureBuilder) -> (Fixture, DatabaseSession) {
    let fixture = started(builder.partitions(1), COLUMNS).await;
    limit(&fixture, "65536").await;
    let session = fixture.session().await.unwrap();
    session.batch_execute(ROWS).await.unwrap();
    wait_none(&session, "n = 3 and published_at is null").await.unwrap();
    (fixture, session)
}

async fn limit(fixture: &Fixture, bytes: &str) {
    let topic = fixture.topics.first().unwrap();
    fixture.kafka.set_topic(topic, &[("max.message.bytes", bytes)]).await.unwrap();
}

/// Waits until every row is published, in the order of its key.
async fn expect_published(fixture: &Fixture, session: &DatabaseSession) {
    wait_none(session, "published_at is null").await.unwrap();
    let rows = session.query("select id::text from outbox where n <> 3 order by n", &[]).await;
    let rows: Vec<String> = rows.unwrap().iter().map(|row| row.get(0)).collect();
    let seen = fixture.seen().await.unwrap();
    let of_key = seen.iter().filter(|record| record.key.as_deref() == Some(b"a"));
    let sent: Vec<&str> = of_key.map(|record| record.header("id").unwrap()).collect();
    assert_eq!(sent, rows);
}

#[tokio::test]
async fn a_row_that_waits_for_its_topic_is_sent_soon_after_the_limit_is_raised() {
    let (mut fixture, session) = waiting(polling()).await;
    let is_told = |status: &Value| status.pointer("/reason/code") == Some(&Value::from("K012"));
    fixture.router.wait_status("the row", SHORT_DEADLINE, is_told).await.unwrap();
    limit(&fixture, "1048576").await;
    expect_published(&fixture, &session).await;
    fixture.router.wait_state("polling", DEADLINE).await.unwrap();
}

#[tokio::test]
async fn a_row_abandoned_for_its_size_is_sent_when_it_is_requeued_under_a_raised_limit() {
    let builder = polling().set("on_error.too_large", "dead_letter").set("retry.max_attempts", 1);
    let (fixture, session) = waiting(builder).await;
    wait_none(&session, "n = 1 and abandoned_at is null").await.unwrap();
    limit(&fixture, "1048576").await;
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let requeue = ["dead-letters", "requeue", "--all", "--yes", "--admin-url", &url];
    let output = fixture.router.command(&requeue).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    expect_published(&fixture, &session).await;
}
