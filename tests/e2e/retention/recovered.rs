//! A recovery that lasts longer than a partition, beside a router that makes them.

use std::collections::HashSet;

use e2e::{Fixture, SHORT_DEADLINE, SLOT};
use serde_json::Value;
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};

use super::partitions::{builder, partitioned, wait_known};
use super::wait_left;

const ROWS: i64 = 60;
/// Rows in a second: all of them take longer than a partition.
const RATE: &str = "10";

/// Writes rows. Returns their ids.
async fn write(session: &DatabaseSession) -> HashSet<String> {
    let sql = format!(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) \
         SELECT 'order', 'key-' || n % 10, 'Changed', '{{}}' FROM generate_series(1, {ROWS}) n \
         RETURNING id::text"
    );
    session.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// The end of the youngest partition's name: the time of its beginning.
async fn youngest(session: &DatabaseSession) -> String {
    let sql = "SELECT max(inhrelid::regclass::text) FROM pg_inherits \
               WHERE inhparent = 'outbox'::regclass";
    session.query_one(sql, &[]).await.unwrap().get(0)
}

async fn recover(fixture: &Fixture) -> (Option<i32>, Value, String) {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    // The key of the table has the time, too.
    let line = ["recover", "--yes", "--json", "--ids-unique", "--rate", RATE, "--admin-url", &url];
    fixture.json_command(&line.map(str::to_owned)).await.unwrap()
}

#[tokio::test]
async fn a_recovery_during_which_partitions_are_made_closes_the_gap_at_its_first_run() {
    let (mut fixture, session) = partitioned(builder()).await;
    fixture.start_accepted().await.unwrap();
    wait_known(&mut fixture, &session).await;
    let mut written = write(&session).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    let drop = format!("SELECT pg_drop_replication_slot('{SLOT}')");
    session.batch_execute(&drop).await.unwrap();
    written.extend(write(&session).await);
    fixture.router.start_again().unwrap();
    let is_recorded = |status: &Value| {
        status["state"] == "failed"
            && status.pointer("/witness/gaps_recorded") == Some(&true.into())
    };
    fixture.router.wait_status("a gap", SHORT_DEADLINE, is_recorded).await.unwrap();

    let before = youngest(&session).await;
    let (exit, answer, said) = recover(&fixture).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!((&answer["closed"], &answer["tables"][0]["missing"]), (&true.into(), &ROWS.into()));
    assert!(youngest(&session).await > before, "none was made meanwhile");
    fixture.wait_streaming().await.unwrap();
    wait_left(&session, 0).await;
    assert_eq!(fixture.delivered_ids().await.unwrap(), (written, 0));
}
