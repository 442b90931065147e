//! A row of a partitioned outbox that moves to another partition is sent again, because the stream
//! shows such a row as a new one. The router reports that a role may move rows.

use e2e::{Fixture, PUBLICATION, ROLE, SHORT_DEADLINE, text};
use serde_json::Value;
use testbed::postgres::DatabaseSession;

use super::{DEADLINE, found};

/// An outbox that is partitioned by what becomes of its rows.
async fn partition_by_processed(session: &DatabaseSession) {
    session
        .batch_execute(&format!(
            "ALTER PUBLICATION {PUBLICATION} DROP TABLE outbox; DROP TABLE outbox;
             CREATE TABLE outbox (id uuid NOT NULL DEFAULT gen_random_uuid(), \
                 aggregate_type text NOT NULL, aggregate_id text NOT NULL, \
                 event_type text NOT NULL, payload jsonb, processed bool NOT NULL DEFAULT false) \
                 PARTITION BY LIST (processed);
             CREATE TABLE outbox_new PARTITION OF outbox FOR VALUES IN (false);
             CREATE TABLE outbox_done PARTITION OF outbox FOR VALUES IN (true);
             ALTER PUBLICATION {PUBLICATION} ADD TABLE outbox; CREATE ROLE app"
        ))
        .await
        .unwrap();
}

async fn expect_records(fixture: &Fixture, count: usize) {
    testbed::wait::eventually(DEADLINE, format!("{count} records"), async || {
        Ok((fixture.seen().await?.len() == count).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn rows_that_may_move_between_partitions_are_reported_and_the_router_continues() {
    let mut fixture = Fixture::builder().set("monitor.interval", "1s").prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    partition_by_processed(&session).await;
    session.batch_execute(&format!("GRANT UPDATE (payload) ON outbox TO {ROLE}")).await.unwrap();
    fixture.restart().await.unwrap();
    let write = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) \
                 SELECT 'order', 'order-1', 'Placed' FROM generate_series(1, 10)";
    session.batch_execute(write).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    expect_records(&fixture, 10).await;
    let looked =
        |status: &Value| status.pointer("/monitor/polled_at").is_some_and(|at| !at.is_null());
    let status = fixture
        .router
        .wait_status("a reading of the monitor", SHORT_DEADLINE, looked)
        .await
        .unwrap();
    assert_eq!(
        found(&status, "P031"),
        None,
        "only the owner can update the table, and the router reports P031: {status}"
    );

    session.batch_execute("GRANT UPDATE ON outbox TO app").await.unwrap();
    let is_reported = |status: &Value| found(status, "P031").is_some();
    let status = fixture
        .router
        .wait_status("the report of who may move rows", SHORT_DEADLINE, is_reported)
        .await
        .unwrap();
    assert_eq!(text(&status, "/state"), Some("streaming"), "{status}");
    let finding = found(&status, "P031").unwrap();
    let message = text(finding, "/message").unwrap();
    assert!(message.contains("\"app\" may update processed"), "{message}");
    assert!(text(finding, "/hint").unwrap().contains("revoke update"), "{finding}");
    assert_eq!(fixture.router.get("/readyz").await.unwrap().status, 200);

    // What it warns of.
    session.batch_execute("SET ROLE app; UPDATE outbox SET processed = true").await.unwrap();
    expect_records(&fixture, 20).await;
    let log = fixture.router.log();
    let warned = log.lines().filter(|line| line.contains("WARN") && line.contains("P031"));
    assert_eq!(warned.count(), 1, "{log}");
}
