//! Publications that went wrong in a way that a name or a list does not show, or for a moment only:
//! what was not published then is missing for ever.

use e2e::{Fixture, PUBLICATION, SHORT_DEADLINE, postgres_version, text};
use serde_json::Value;
use testbed::wait::eventually;

use super::{
    WITHIN, damage_and_write, expect_gap, expect_nothing_produced, expect_reported, produced,
    streaming_fixture, wait_for_monitor, write,
};

#[tokio::test]
async fn a_renamed_publication_is_a_gap() {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    let renamed = format!("ALTER PUBLICATION {PUBLICATION} RENAME TO other");
    let done = damage_and_write(&mut fixture, &renamed).await;
    expect_gap(&mut fixture, &["P020"], &done).await;
}

#[tokio::test]
async fn an_unpublished_generated_payload_stops_the_router_before_the_first_row() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    // The publication follows the table: what is published of it is said by the stream alone.
    session
        .batch_execute(
            "ALTER TABLE outbox DROP COLUMN payload, ADD COLUMN body jsonb;
             ALTER TABLE outbox ADD COLUMN payload jsonb GENERATED ALWAYS AS (body) STORED;
             INSERT INTO outbox (aggregate_type, aggregate_id, event_type, body) \
                 VALUES ('order', 'order-1', 'Placed', '{\"total\": 10}')",
        )
        .await
        .unwrap();
    fixture.router.start_again().unwrap();
    let status = fixture.router.wait_state("failed", SHORT_DEADLINE).await.unwrap();
    let message = status["reason"]["message"].as_str().unwrap();
    assert!(message.contains("payload") && message.contains("outbox"), "{status}");
    assert!(status["reason"]["hint"].is_string(), "{status}");
    assert_eq!(produced(&fixture).await.iter().sum::<i64>(), 0, "a record without its payload");
}

/// Writes a row while the publication leaves it out, between two checks of the monitor. Afterwards
/// the publication is as before, and the row is missing.
async fn leave_one_row_out(wrong: &str, right: &str) -> Fixture {
    // The monitor checks once a second, so directly after a check there is enough time.
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    let session = fixture.session().await.unwrap();
    let polled = |status: &Value| status.pointer("/monitor/polled_at").and_then(Value::as_f64);
    let last = polled(&fixture.status().await.unwrap());
    let looked = |status: &Value| polled(status) > last;
    fixture.router.wait_status("a look of the monitor", SHORT_DEADLINE, looked).await.unwrap();

    session.batch_execute(wrong).await.unwrap();
    session
        .batch_execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) \
             VALUES ('order', 'order-1', 'Lost')",
        )
        .await
        .unwrap();
    session.batch_execute(right).await.unwrap();
    fixture
}

#[tokio::test]
async fn a_table_taken_out_of_the_publication_and_put_back_is_a_gap() {
    let mut fixture = leave_one_row_out(
        "ALTER PUBLICATION outbox_router DROP TABLE outbox",
        "ALTER PUBLICATION outbox_router ADD TABLE outbox",
    )
    .await;
    let status = fixture.router.wait_state("failed", WITHIN).await.unwrap();
    assert_eq!(text(&status, "/reason/code"), Some("P021"), "{status}");
    let message = text(&status, "/reason/message").unwrap();
    assert!(message.contains("put back") && message.contains("may be missing"), "{message}");
    expect_reported(&fixture, &["P021"]).await;
    expect_nothing_produced(&mut fixture, &["P021"]).await;
}

/// The record of the row would look as any other one, and `recover` finds its id.
#[tokio::test]
async fn no_record_goes_without_a_column_that_the_publication_left_out_for_a_moment() {
    if postgres_version().unwrap() < 15 {
        return;
    }
    let columns = "id, aggregate_type, aggregate_id, event_type, payload, created_at";
    let mut fixture = leave_one_row_out(
        &format!("ALTER PUBLICATION outbox_router SET TABLE outbox ({columns})"),
        "ALTER PUBLICATION outbox_router SET TABLE outbox",
    )
    .await;
    let is_reported = |status: &Value| text(status, "/reason/code") == Some("P021");
    fixture.router.wait_status("failed with P021", WITHIN, is_reported).await.unwrap();
    let seen = fixture.seen().await.unwrap();
    assert!(seen.len() >= 100, "{} records", seen.len());
    assert!(!seen.iter().any(|record| record.header("type") == Some("Lost")), "without headers");
    expect_nothing_produced(&mut fixture, &["P021"]).await;
}

#[tokio::test]
async fn a_publication_that_left_inserts_out_for_a_moment_is_a_gap() {
    let mut fixture = leave_one_row_out(
        "ALTER PUBLICATION outbox_router SET (publish = 'update')",
        "ALTER PUBLICATION outbox_router SET (publish = 'insert')",
    )
    .await;
    let status = fixture.router.wait_state("failed", WITHIN).await.unwrap();
    assert_eq!(text(&status, "/reason/code"), Some("P032"), "{status}");
    let message = text(&status, "/reason/message").unwrap();
    assert!(message.contains("looks as before") && message.contains("may be missing"), "{message}");
    assert!(status.pointer("/reason/interval/from/lsn").is_some(), "{status}");
    expect_reported(&fixture, &["P032"]).await;
    expect_nothing_produced(&mut fixture, &["P032"]).await;
}

#[tokio::test]
async fn a_publication_that_left_inserts_out_while_the_router_was_disconnected_is_a_gap() {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    let session = fixture.session().await.unwrap();
    // Only its own memory shows the change: the publication is as before when it reconnects.
    session.batch_execute("ALTER ROLE outbox_router NOLOGIN").await.unwrap();
    let away =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'outbox_router'";
    session.batch_execute(away).await.unwrap();
    session
        .batch_execute("ALTER PUBLICATION outbox_router SET (publish = 'update')")
        .await
        .unwrap();
    write(&mut fixture, 1).await;
    session
        .batch_execute("ALTER PUBLICATION outbox_router SET (publish = 'insert')")
        .await
        .unwrap();
    session.batch_execute("ALTER ROLE outbox_router LOGIN").await.unwrap();
    let is_reported = |status: &Value| text(status, "/reason/code") == Some("P032");
    let status = fixture
        .router
        .wait_status("failed with P032", 3 * SHORT_DEADLINE, is_reported)
        .await
        .unwrap();
    assert!(text(&status, "/reason/message").unwrap().contains("may be missing"), "{status}");
}

#[tokio::test]
async fn an_alteration_whose_change_is_visible_is_reported_and_the_router_continues() {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    let session = fixture.session().await.unwrap();
    let other = "CREATE ROLE other SUPERUSER; ALTER PUBLICATION outbox_router OWNER TO other";
    session.batch_execute(other).await.unwrap();
    let announced = |log: &str| {
        let lines = log.lines().filter(|line| line.contains("was altered between two readings"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let line = eventually(WITHIN, "a warning in the log", async || {
        Ok(announced(&fixture.router.log()).into_iter().next())
    });
    let line = line.await.unwrap();
    assert!(line.contains("WARN") && line.contains("P032") && line.contains("hint="), "{line}");
    write(&mut fixture, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    wait_for_monitor(&mut fixture, 3.0).await;
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    assert_eq!(announced(&fixture.router.log()).len(), 1, "{}", fixture.router.log());
}

#[tokio::test]
async fn unpublished_generated_headers_stop_the_router_before_the_first_row() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session
        .batch_execute(
            "ALTER TABLE outbox DROP COLUMN headers, ADD COLUMN tenant text;
             ALTER TABLE outbox ADD COLUMN headers jsonb
                 GENERATED ALWAYS AS (('{\"tenant\": \"' || tenant || '\"}')::jsonb) STORED;
             INSERT INTO outbox (aggregate_type, aggregate_id, event_type, tenant) \
                 VALUES ('order', 'order-1', 'Placed', 'acme')",
        )
        .await
        .unwrap();
    fixture.router.start_again().unwrap();
    let status = fixture.router.wait_state("failed", SHORT_DEADLINE).await.unwrap();
    let message = text(&status, "/reason/message").unwrap();
    assert!(message.contains("headers") && message.contains("outbox"), "{status}");
    assert_eq!(produced(&fixture).await.iter().sum::<i64>(), 0, "a record without its headers");
}
