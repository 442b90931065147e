//! Rows of the default partition that a person moves into a new one, by the recipe of the page.

use e2e::{Fixture, PUBLICATION, SHORT_DEADLINE, text};
use serde_json::Value;
use testbed::postgres::DatabaseSession;

use super::{count, has_interval};

/// The statements of "Rows that return".
fn recipe() -> &'static str {
    let page = include_str!("../../../docs/guarantees.md");
    let (_, section) = page.split_once("\n## Rows that return\n").unwrap();
    let (_, code) = section.split_once("```sql\n").unwrap();
    code.split_once("```").unwrap().0
}

/// Writes rows that no partition but the default one takes.
async fn write(fixture: &Fixture, session: &DatabaseSession, rows: i32, created_at: &str) {
    let aggregate_type = fixture.schema.types.first().unwrap();
    let sql = format!(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at) \
         SELECT '{aggregate_type}', 'key-' || n % 5, 'Placed', jsonb_build_object('n', n), \
           {created_at} FROM generate_series(1, {rows}) n"
    );
    session.batch_execute(&sql).await.unwrap();
}

#[tokio::test]
async fn rows_that_are_moved_as_the_page_says_are_sent_once_and_the_gap_is_accepted() {
    let mut fixture = Fixture::builder().set("monitor.interval", "1s").prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let partitioned = format!(
        "ALTER PUBLICATION {PUBLICATION} DROP TABLE outbox; DROP TABLE outbox; \
         CREATE TABLE outbox (id uuid DEFAULT gen_random_uuid(), aggregate_type text NOT NULL, \
             aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb, \
             created_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (id, created_at)) \
             PARTITION BY RANGE (created_at); \
         CREATE TABLE outbox_default PARTITION OF outbox DEFAULT; \
         ALTER PUBLICATION {PUBLICATION} ADD TABLE outbox"
    );
    session.batch_execute(&partitioned).await.unwrap();
    fixture.start_accepted().await.unwrap();
    write(&fixture, &session, 20, "current_date - 1").await;
    write(&fixture, &session, 1_000, "now()").await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();

    session.batch_execute(recipe()).await.unwrap();
    let parts = [count(&session, "outbox_today").await, count(&session, "outbox_default").await];
    assert_eq!(parts, [1_000, 20]);
    let stands = |status: &Value| {
        text(status, "/state") == Some("failed")
            && text(status, "/reason/code") == Some("P021")
            && has_interval(status)
    };
    let status = fixture.router.wait_status("P021", SHORT_DEADLINE, stands).await.unwrap();
    let message = text(&status, "/reason/message").unwrap();
    let expected = "partition public.outbox_default of table public.outbox was detached";
    assert!(message.contains(expected), "{message}");
    let hint = text(&status, "/reason/hint").unwrap();
    assert!(hint.contains("outbox-router accept"), "{hint}");
    write(&fixture, &session, 10, "now()").await;
    write(&fixture, &session, 10, "current_date - 1").await;
    fixture.accept().await.unwrap();
    write(&fixture, &session, 10, "now()").await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(count(&session, "outbox").await, 1_050);
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
}
