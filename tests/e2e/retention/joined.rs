//! A table that was filled before it becomes an outbox of a running pipeline.

use e2e::{Fixture, SHORT_DEADLINE};
use serde_json::Value;
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use testbed::wait::eventually;

use super::{DEADLINE, builder, cleanup, count, started, wait_left, wait_swept};

const OLDER: i64 = 5;
const NEWER: i64 = 7;

async fn write(session: &DatabaseSession, table: &str, rows: i64) {
    let sql = format!(
        "INSERT INTO {table} (aggregate_type, aggregate_id, event_type, payload) \
         SELECT 'order', 'key-' || n % 3, 'Changed', '{{}}' FROM generate_series(1, {rows}) n"
    );
    session.batch_execute(&sql).await.unwrap();
}

/// Writes the table into the configuration, and lets `setup` publish it.
async fn join(fixture: &mut Fixture) {
    fixture.router.sigterm().unwrap();
    fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    let topic = &fixture.mapping.topic_prefix;
    let joined = format!(
        "{}\n[[outbox]]\ntable = \"public.outbox_b\"\ntopic = \"{topic}${{aggregate_type}}\"\n",
        fixture.config
    );
    fixture.router.set_config(&joined).unwrap();
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let output = fixture.router.command(&["setup", "--apply", "--admin-url", &url]).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

fn older(status: &Value) -> Option<i64> {
    status.pointer("/retention/tables/1/older")?.as_i64()
}

#[tokio::test]
async fn rows_from_before_a_table_joined_stay_and_those_from_after_go_once_they_are_sent() {
    let (mut fixture, session) = started(builder()).await;
    write(&session, "outbox", NEWER).await;
    wait_left(&session, 0).await;
    let made = "CREATE TABLE outbox_b (LIKE outbox INCLUDING ALL); \
                GRANT SELECT, DELETE ON outbox_b TO outbox_router";
    session.batch_execute(made).await.unwrap();
    write(&session, "outbox_b", OLDER).await;
    let old = "CREATE TABLE old AS SELECT id FROM outbox_b";
    session.batch_execute(old).await.unwrap();
    join(&mut fixture).await;
    fixture.restart().await.unwrap();
    write(&session, "outbox_b", NEWER).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    eventually(DEADLINE, "the newer rows have gone", async || {
        Ok((count(&session, "outbox_b").await <= OLDER).then_some(()))
    })
    .await
    .unwrap();
    wait_swept(&mut fixture).await;
    assert_eq!(older(&fixture.status().await.unwrap()), Some(OLDER));
    assert_eq!(count(&session, "outbox_b JOIN old USING (id)").await, OLDER);
    assert_eq!(count(&session, "outbox_b").await, OLDER);
    let (sent, doubled) = fixture.delivered_ids().await.unwrap();
    assert_eq!((i64::try_from(sent.len()).unwrap(), doubled), (2 * NEWER, 0));
    let (code, text) = cleanup(&fixture, &["--older"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(count(&session, "outbox_b").await, 0, "a person has given them up");
}
