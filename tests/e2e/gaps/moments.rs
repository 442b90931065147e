//! Publications that went wrong in a way that a name or a list does not show.

use e2e::{PUBLICATION, SOON, Stage};

use super::{damage, expect_gap, flowing, produced, write};

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
