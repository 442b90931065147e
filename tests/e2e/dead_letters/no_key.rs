//! Rows without a key: nothing has an order with them, so none of them holds anything.

use e2e::SHORT_DEADLINE;
use testbed::postgres::DatabaseSession;

use super::bulk::{create_functions, write_transactions};
use super::{
    builder, dead_letters, decide_about_all, open, reconfigure, started, states, wait_closed,
};

/// Writes rows without an aggregate id. The table of committed events has keys only, so the checker
/// takes what is delivered of them for phantoms.
async fn write_without_key(session: &DatabaseSession, rows: i32) {
    let sql = format!(
        "INSERT INTO outbox (aggregate_type, event_type, payload) \
         SELECT 'order', 'Keyless', '{{}}' FROM generate_series(1, {rows})"
    );
    session.batch_execute(&sql).await.unwrap();
}

#[tokio::test]
async fn rows_without_a_key_hold_neither_each_other_nor_a_key() {
    let (mut fixture, session) = started(builder()).await;
    create_functions(&session).await;
    session.batch_execute("ALTER TABLE outbox ALTER aggregate_id DROP NOT NULL").await.unwrap();
    for _ in 0..3 {
        write_transactions(&session, 2, 10, 10).await;
        write_without_key(&session, 2).await;
    }
    write_transactions(&session, 2, 10, 10).await;

    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    println!("while six rows are held: {result}");
    assert_eq!((result.in_kafka, result.duplicates), (800, 0));
    assert_eq!(open(&session).await, (6, 6), "each row is a dead letter of its own");
    let held = fixture.status().await.unwrap()["held"].clone();
    assert_eq!((&held["keys"], &held["events"]), (&6.into(), &6.into()), "each counts as a key");
    let (code, listed) = dead_letters(&fixture, &["list"]).await;
    assert_eq!(code, Some(1));
    assert_eq!(listed.matches("(no key)").count(), 6, "{listed}");
    assert!(listed.contains("R001"), "{listed}");

    // One is dropped by its id; the others wait on, and then get their key from another column.
    let sql = "SELECT event_id FROM outbox_router.held ORDER BY commit_lsn, event_index";
    let id: String = session.query(sql, &[]).await.unwrap()[3].get(0);
    let (code, told) = dead_letters(&fixture, &["drop", "--id", &id, "--yes"]).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("dropped 1 dead letter\n"), "{told}");
    reconfigure(&mut fixture, |config| {
        config.set_outbox("columns.aggregate_id", "id");
    })
    .await;
    decide_about_all(&fixture, "requeue").await;
    wait_closed(&session).await;
    let expected = [("delivered".to_owned(), 5), ("dropped".to_owned(), 1)];
    assert_eq!(states(&session).await, expected.into());
    let seen = fixture.seen().await.unwrap();
    let without_key = seen.iter().filter(|record| record.header("type") == Some("Keyless"));
    let mut ids = Vec::new();
    for record in without_key {
        assert_eq!(record.key.as_deref(), record.header("id").map(str::as_bytes));
        ids.push(record.header("id").unwrap());
    }
    assert_eq!(ids.len(), 5);
    assert!(!ids.contains(&id.as_str()), "it was dropped");
    let result = fixture.check().await.unwrap();
    println!("after the decisions: {result}");
    assert_eq!((result.lost.count(), result.order.count(), result.phantom.count()), (0, 0, 5));
}
