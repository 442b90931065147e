//! Publications that went wrong in a way that a name or a list does not show, or for a moment only: what was
//! not published then is missing for ever.

use e2e::{PUBLICATION, SOON, Stage, text};
use serde_json::Value;

use super::{WITHIN, damage, expect_gap, expect_told, flowing, produced, write};

#[tokio::test]
async fn a_publication_that_is_renamed_is_a_gap() {
    let mut stage = flowing(Stage::builder()).await;
    let done = damage(&stage, &format!("ALTER PUBLICATION {PUBLICATION} RENAME TO other")).await;
    write(&mut stage, 1).await;
    expect_gap(&mut stage, &["P020"], &done).await;
}

#[tokio::test]
async fn a_generated_payload_that_postgresql_does_not_publish_stops_the_router_before_the_first_row()
 {
    let mut stage = Stage::builder().prepare().await.unwrap();
    let session = stage.session().await.unwrap();
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
    stage.router.start_again().unwrap();
    let status = stage.router.wait_state("failed", SOON).await.unwrap();
    let told = status["reason"]["message"].as_str().unwrap();
    assert!(told.contains("payload") && told.contains("outbox"), "{status}");
    assert!(status["reason"]["hint"].is_string(), "{status}");
    assert_eq!(produced(&stage).await.iter().sum::<i64>(), 0, "a record without its payload");
}

/// Rows that are written while the publication is wrong are missing, although it is right again when somebody
/// looks.
async fn expect_moment_is_noticed(wrong: &str, right: &str) {
    // The monitor looks once a second; right behind a look there is time enough for a moment.
    let mut stage = flowing(Stage::builder()).await;
    let session = stage.session().await.unwrap();
    let polled = |status: &Value| status.pointer("/monitor/polled_at").and_then(Value::as_f64);
    let last = polled(&stage.status().await.unwrap());
    let looked = |status: &Value| polled(status) > last;
    stage.router.wait_status("a look of the monitor", SOON, looked).await.unwrap();

    session.batch_execute(wrong).await.unwrap();
    session
        .batch_execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) \
             VALUES ('order', 'order-1', 'Lost')",
        )
        .await
        .unwrap();
    session.batch_execute(right).await.unwrap();
    let status = stage.router.wait_state("failed", WITHIN).await.unwrap();
    let code = text(&status, "/reason/code").unwrap();
    assert!(code.starts_with("P02"), "{status}");
    expect_told(&stage, &[code]).await;
}

#[tokio::test]
async fn a_table_that_left_the_publication_for_a_moment_is_a_gap() {
    expect_moment_is_noticed(
        "ALTER PUBLICATION outbox_router DROP TABLE outbox",
        "ALTER PUBLICATION outbox_router ADD TABLE outbox",
    )
    .await;
}

#[tokio::test]
async fn inserts_that_were_not_published_for_a_moment_are_a_gap() {
    expect_moment_is_noticed(
        "ALTER PUBLICATION outbox_router SET (publish = 'update')",
        "ALTER PUBLICATION outbox_router SET (publish = 'insert')",
    )
    .await;
}

#[tokio::test]
async fn generated_headers_that_postgresql_does_not_publish_stop_the_router_too() {
    let mut stage = Stage::builder().prepare().await.unwrap();
    let session = stage.session().await.unwrap();
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
    stage.router.start_again().unwrap();
    let status = stage.router.wait_state("failed", SOON).await.unwrap();
    let told = text(&status, "/reason/message").unwrap();
    assert!(told.contains("headers") && told.contains("outbox"), "{status}");
    assert_eq!(produced(&stage).await.iter().sum::<i64>(), 0, "a record without its headers");
}
