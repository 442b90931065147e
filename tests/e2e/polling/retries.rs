//! Rows that cannot be delivered: they hold back their key and no other.

use e2e::{Fixture, ROLE, SHORT_DEADLINE};
use serde_json::Value;
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;
use tokio::time::timeout;

use super::{COLUMNS, DEADLINE, insert, polling, started, stop};

const STATUS_COLUMNS: &str = "alter table outbox \
    add n bigint generated always as identity, \
    add status text not null default 'PENDING', \
    add attempts int not null default 0, \
    add last_error text, \
    add available_at timestamptz not null default now(), \
    add published_at timestamptz";

/// The rows that are published, by their number.
async fn published(session: &DatabaseSession, mark: &str) -> Vec<i64> {
    let query = format!("select n from outbox where {mark} order by n");
    session.query(&query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn wait_published(session: &DatabaseSession, mark: &str, rows: &[i64]) {
    eventually(DEADLINE, format!("{rows:?} published"), async || {
        Ok((published(session, mark).await == rows).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn nothing_of_a_key_passes_its_bad_row_and_a_corrected_row_is_delivered() {
    const MARK: &str = "published_at is not null";
    let mut fixture = started(polling(), COLUMNS).await;
    let session = fixture.session().await.unwrap();
    // Headers that are no object (R009).
    insert(&session, "a", "[1]").await;
    insert(&session, "a", "{}").await;
    insert(&session, "b", "{}").await;
    wait_published(&session, MARK, &[3]).await;
    let failed = |status: &Value| status.pointer("/reason/code") == Some(&Value::from("R009"));
    fixture.router.wait_status("the bad row", SHORT_DEADLINE, failed).await.unwrap();
    insert(&session, "b", "{}").await;
    wait_published(&session, MARK, &[3, 4]).await;
    session.batch_execute("update outbox set headers = '{}' where n = 1").await.unwrap();
    wait_published(&session, MARK, &[1, 2, 3, 4]).await;
    fixture.router.wait_state("polling", SHORT_DEADLINE).await.unwrap();
}

/// For a supervisor that restarts what exits, or tells a person.
#[tokio::test]
async fn with_exit_on_fatal_a_worker_ends_where_a_person_is_needed() {
    const MARK: &str = "published_at is not null";
    let mut fixture = started(polling(), COLUMNS).await;
    let session = fixture.session().await.unwrap();
    stop(&mut fixture.router).await;
    let ended = async |fixture: &Fixture| {
        let run = fixture.router.command(&["run", "--exit-on-fatal"]);
        let output = timeout(DEADLINE, run).await.expect("it ends").unwrap();
        let log = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(log).unwrap())
    };
    // What does not wait behind the bad row is delivered.
    insert(&session, "a", "[1]").await;
    insert(&session, "a", "{}").await;
    insert(&session, "b", "{}").await;
    let (code, log) = ended(&fixture).await;
    assert_eq!(code, Some(79), "{log}");
    assert!(log.contains("R009"), "{log}");
    assert_eq!(published(&session, MARK).await, [3]);

    session.batch_execute(&format!("revoke update on outbox from {ROLE}")).await.unwrap();
    let (code, log) = ended(&fixture).await;
    assert_eq!(code, Some(79), "{log}");
    assert!(log.contains("P002"), "{log}");
}

#[tokio::test]
async fn a_bad_row_is_abandoned_where_the_table_can_record_it_and_holds_its_key() {
    const MARK: &str = "status = 'PUBLISHED'";
    let builder = polling()
        .set("on_error.bad_row", "dead_letter")
        .set("retry.max_attempts", 2)
        .set("retry.base_delay", "100ms");
    let fixture = started(builder, STATUS_COLUMNS).await;
    let session = fixture.session().await.unwrap();
    insert(&session, "a", "[1]").await;
    insert(&session, "a", "{}").await;
    insert(&session, "b", "{}").await;
    wait_published(&session, MARK, &[3]).await;
    eventually(DEADLINE, "an abandoned row", async || {
        let query = "select attempts, last_error from outbox where status = 'ABANDONED'";
        let row = session.query_opt(query, &[]).await?;
        Ok(row.filter(|row| {
            let error: Option<String> = row.get(1);
            row.get::<_, i32>(0) == 2 && error.is_some_and(|error| error.contains("R009"))
        }))
    })
    .await
    .unwrap();
    assert_eq!(published(&session, MARK).await, [3], "its key waits");
    let mend = "update outbox set headers = '{}', status = 'PENDING', attempts = 0 where n = 1";
    session.batch_execute(mend).await.unwrap();
    wait_published(&session, MARK, &[1, 2, 3]).await;
}
