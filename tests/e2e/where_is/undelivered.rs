//! Events that no topic has.

use e2e::{Fixture, PUBLICATION, SHORT_DEADLINE, SLOT, text};
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;

use super::{insert, told, where_is};

const NO_ID: &str = "00000000-0000-0000-0000-000000000000";

/// Moves the slot past everything that is committed, as a person does who gives it up.
pub(super) async fn pass_slot(session: &DatabaseSession) {
    let advance = format!("SELECT pg_replication_slot_advance('{SLOT}', pg_current_wal_lsn())");
    // A later position than that of the row's commit is confirmed.
    session.batch_execute("SELECT pg_switch_wal(); CHECKPOINT").await.unwrap();
    session.batch_execute(&advance).await.unwrap();
}

#[tokio::test]
async fn an_event_that_nobody_reads_waits_for_a_router() {
    let fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let id = insert(&session, "order", "a").await;
    let answer = where_is(&fixture, &[&id]).await;
    answer.expect("waiting", "nobody reads the slot");
    assert!(answer.text("hint").contains("outbox-router run"), "{:#}", answer.json);
    assert_eq!(answer.text("committed_at_source"), "column created_at");
    assert_eq!(answer.text("topic"), fixture.topics[0]);
    let told = told(&fixture, &[&id]).await;
    assert!(told.contains("state      waiting: committed; nobody reads the slot"), "{told}");
    assert!(told.contains("to do      outbox-router run"), "{told}");
}

#[tokio::test]
async fn an_event_waits_for_what_stops_the_router() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    let session = fixture.session().await.unwrap();
    let id = insert(&session, "missing", "a").await;
    let next = insert(&session, "order", "a").await;
    let is_blocked = |status: &serde_json::Value| text(status, "/reason/code") == Some("K010");
    fixture.router.wait_status("a missing topic", SHORT_DEADLINE, is_blocked).await.unwrap();
    for id in [&id, &next] {
        let answer = where_is(&fixture, &[id]).await;
        answer.expect("waiting", "does not exist");
        assert_eq!(answer.text("code"), "K010");
    }
}

#[tokio::test]
async fn an_event_that_a_router_has_not_delivered_yet_is_in_flight() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    let session = fixture.session().await.unwrap();
    insert(&session, "order", "a").await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    // It keeps its walsender, and sends nothing on.
    fixture.router.pause().unwrap();
    let id = insert(&session, "order", "a").await;
    let answer = where_is(&fixture, &[&id]).await;
    answer.expect("in_flight", "not confirmed yet");
    fixture.router.resume().unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    where_is(&fixture, &[&id]).await.expect("acknowledged", "at offset ");
}

#[tokio::test]
async fn what_is_rolled_back_or_open_is_not_committed() {
    let fixture = Fixture::builder().start().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute("BEGIN").await.unwrap();
    let open = insert(&session, "order", "a").await;
    where_is(&fixture, &[&open]).await.expect("not_committed", "its transaction is open");
    session.batch_execute("ROLLBACK").await.unwrap();
    where_is(&fixture, &[&open]).await.expect("not_committed", "was rolled back");
    where_is(&fixture, &[NO_ID]).await.expect("not_committed", "no table has such a row");
}

#[tokio::test]
async fn a_row_older_than_the_slot_is_told_from_one_that_is_missing() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let older = insert(&session, "order", "a").await;
    session.batch_execute(&format!("SELECT pg_drop_replication_slot('{SLOT}')")).await.unwrap();
    testbed::postgres::create_slot(&session, SLOT, "pgoutput").await.unwrap();
    // Older than what is delivered by more than the clocks' rounding.
    let later = "SELECT count(*) FROM outbox WHERE clock_timestamp() > created_at + interval '2 s'";
    eventually(SHORT_DEADLINE, "two seconds", async || {
        let passed: i64 = session.query_one(later, &[]).await?.get(0);
        Ok((passed == 1).then_some(()))
    })
    .await
    .unwrap();
    fixture.restart().await.unwrap();
    insert(&session, "order", "b").await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    where_is(&fixture, &[&older]).await.expect("before_topic", "before the slot was created");

    // Another client moves the slot while no router reads it. That the pipeline began without a
    // witness would hide it.
    fixture.accept().await.unwrap();
    fixture.kill_router().await.unwrap();
    let passed = insert(&session, "order", "a").await;
    pass_slot(&session).await;
    let answer = where_is(&fixture, &[&passed]).await;
    // No router has found it yet, and one would.
    answer.expect("gap", "the row lies in an open gap, P014@");
    assert!(
        answer.text("reason").contains("slot \"outbox_router\" stands at "),
        "{:#}",
        answer.json
    );
    assert_eq!(answer.text("code"), "P014", "{:#}", answer.json);
}

#[tokio::test]
async fn a_row_that_the_filter_leaves_out_is_filtered() {
    let fixture = Fixture::builder()
        .set_outbox("where.column", "event_type")
        .set_outbox("where.not_in", serde_json::json!(["Made"]))
        .start()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    let id = insert(&session, "order", "a").await;
    where_is(&fixture, &[&id]).await.expect("filtered", "where.not_in = [\"Made\"]");
}

#[tokio::test]
async fn a_row_of_an_open_gap_names_the_gap() {
    let mut fixture = Fixture::builder().set("monitor.interval", "1s").start().await.unwrap();
    let session = fixture.session().await.unwrap();
    let before = insert(&session, "order", "a").await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    session.batch_execute(&format!("DROP PUBLICATION {PUBLICATION}")).await.unwrap();
    let within = insert(&session, "order", "a").await;
    fixture.router.start_again().unwrap();
    let is_recorded = |status: &serde_json::Value| {
        status.pointer("/witness/gaps_recorded") == Some(&serde_json::Value::Bool(true))
            && status.pointer("/witness/gaps/0").is_some()
    };
    fixture.router.wait_status("a gap", SHORT_DEADLINE, is_recorded).await.unwrap();
    let answer = where_is(&fixture, &[&within]).await;
    answer.expect("gap", "lies in an open gap, P0");
    assert!(answer.text("hint").contains("outbox-router accept"), "{:#}", answer.json);
    where_is(&fixture, &[&before]).await.expect("acknowledged", "at offset ");
    // The state topic says the same.
    fixture.router.kill9().await.unwrap();
    where_is(&fixture, &[&within]).await.expect("gap", "lies in an open gap, P0");
}
