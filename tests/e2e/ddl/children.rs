//! Tables that inherit from the outbox: their rows are its rows to the application, and another
//! table's to the stream.

use e2e::{Fixture, PUBLICATION, SHORT_DEADLINE, text};
use testbed::postgres::DatabaseSession;

use super::{DEADLINE, insert_into, own_aggregate};

const CHILD: &str = "CREATE TABLE outbox_2026 () INHERITS (outbox)";

async fn prepared() -> (Fixture, DatabaseSession) {
    let fixture = Fixture::builder().set("monitor.interval", "1s").prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    own_aggregate(&session).await;
    (fixture, session)
}

async fn expect_all_rows_delivered(fixture: &Fixture) {
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
}

#[tokio::test]
async fn an_inheriting_table_before_the_first_session_is_refused_until_it_is_gone() {
    let (mut fixture, session) = prepared().await;
    session.batch_execute(CHILD).await.unwrap();
    insert_into(&session, "outbox", "aggregate_id").await;
    fixture.router.start_again().unwrap();
    let status = fixture.router.wait_state("failed", SHORT_DEADLINE).await.unwrap();
    assert_eq!(text(&status, "/reason/code"), Some("P030"), "{status}");
    let message = text(&status, "/reason/message").unwrap();
    assert!(message.contains("public.outbox_2026 inherits from public.outbox"), "{message}");
    assert!(!message.contains("may be missing"), "{message}");
    let hint = text(&status, "/reason/hint").unwrap();
    let statement =
        format!("alter publication \"{PUBLICATION}\" add table only \"public\".\"outbox_2026\"");
    assert!(hint.contains(&statement) && hint.contains("partition"), "{hint}");
    assert_eq!(fixture.router.get("/readyz").await.unwrap().status, 503);

    // Looked at again by itself, as anything that a person repairs.
    session.batch_execute("ALTER TABLE outbox_2026 NO INHERIT outbox").await.unwrap();
    fixture.router.wait_state("streaming", 2 * SHORT_DEADLINE).await.unwrap();
    expect_all_rows_delivered(&fixture).await;
}

#[tokio::test]
async fn an_inheriting_table_created_while_the_router_runs_is_a_gap() {
    let (mut fixture, session) = prepared().await;
    fixture.restart().await.unwrap();
    insert_into(&session, "outbox", "aggregate_id").await;
    expect_all_rows_delivered(&fixture).await;
    session.batch_execute(CHILD).await.unwrap();
    insert_into(&session, "outbox_2026", "aggregate_id").await;
    let is_reported = |status: &serde_json::Value| {
        text(status, "/state") == Some("failed")
            && text(status, "/reason/interval/from/lsn").is_some()
    };
    let status = fixture
        .router
        .wait_status("failed with an interval", SHORT_DEADLINE, is_reported)
        .await
        .unwrap();
    assert_eq!(text(&status, "/reason/code"), Some("P030"), "{status}");
    assert!(text(&status, "/reason/message").unwrap().contains("may be missing"), "{status}");
}

#[tokio::test]
async fn an_inheriting_table_that_is_configured_as_an_outbox_is_followed() {
    let (mut fixture, session) = prepared().await;
    session
        .batch_execute(&format!("{CHILD}; ALTER PUBLICATION {PUBLICATION} ADD TABLE outbox_2026"))
        .await
        .unwrap();
    let topic = format!("{}${{aggregate_type}}", fixture.mapping.topic_prefix);
    for table in ["outbox", "outbox_2026"] {
        insert_into(&session, table, "aggregate_id").await;
    }
    let second = format!(
        "{}\n[[outbox]]\ntable = \"public.outbox_2026\"\ntopic = \"{topic}\"\n",
        fixture.config
    );
    fixture.router.set_config(&second).unwrap();
    fixture.restart().await.unwrap();
    for table in ["outbox_2026", "outbox"] {
        insert_into(&session, table, "aggregate_id").await;
    }
    expect_all_rows_delivered(&fixture).await;
}
