//! An event is the row as it was inserted: neither what an UPDATE has made of it since, nor a
//! former row of its id stands for it.

use e2e::{Fixture, SHORT_DEADLINE, SLOT};
use serde_json::json;
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};

use super::{drop_slot, expect_closed, recover, streaming};

const FIRST: &str = "6a8a6e5f-1111-4111-8111-000000000001";
const SECOND: &str = "6a8a6e5f-1111-4111-8111-000000000002";

async fn insert(fixture: &Fixture, session: &DatabaseSession, id: &str, payload: &str) {
    let aggregate_type = fixture.schema.types.first().unwrap();
    let insert = format!(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload) \
         VALUES ('{id}', '{aggregate_type}', 'key', 'Changed', '{payload}')"
    );
    session.batch_execute(&insert).await.unwrap();
}

/// A streaming router that holds bad rows as dead letters.
async fn holding_bad_rows() -> (Fixture, DatabaseSession) {
    let builder =
        Fixture::builder().set("on_error.bad_row", "dead_letter").set("dead_letters.topic", "");
    let mut fixture = builder.prepare().await.unwrap();
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let made = ["setup", "--apply", "--dead-letters", "--admin-url", &url];
    let made = fixture.router.command(&made).await.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let session = fixture.session().await.unwrap();
    session.batch_execute("CREATE INDEX ON outbox (created_at)").await.unwrap();
    fixture.start_accepted().await.unwrap();
    (fixture, session)
}

/// The slot is lost while the router is down.
async fn lose_the_slot(fixture: &mut Fixture, session: &DatabaseSession) {
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(session).await;
}

/// How many records Kafka has whose id header is this, and whose value contains a text.
async fn records(fixture: &Fixture, id: &str, value: &str) -> usize {
    let records = fixture.seen().await.unwrap();
    let is_one = |record: &&testbed::reader::ConsumedRecord| {
        let text = |bytes: &Option<Vec<u8>>| {
            bytes.as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned()
        };
        let has_id = record.headers.iter().any(|(name, of)| name == "id" && text(of) == id);
        has_id && text(&record.value).contains(value)
    };
    records.iter().filter(is_one).count()
}

#[tokio::test]
async fn rows_that_an_update_has_filtered_keep_the_gap_open_until_a_person_decides() {
    let builder = Fixture::builder()
        .set_outbox("where.column", "stage")
        .set_outbox("where.in", vec!["pending"]);
    let mut fixture = builder.prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let prepare = "CREATE INDEX ON outbox (created_at); \
         ALTER TABLE outbox ADD stage text NOT NULL DEFAULT 'pending'";
    session.batch_execute(prepare).await.unwrap();
    fixture.start_accepted().await.unwrap();
    for (id, filtered) in [(FIRST, "send"), (SECOND, "give-up")] {
        lose_the_slot(&mut fixture, &session).await;
        insert(&fixture, &session, id, "{}").await;
        let done = format!("UPDATE outbox SET stage = 'done' WHERE id = '{id}'");
        session.batch_execute(&done).await.unwrap();
        let (exit, answer, said) = recover(&fixture, &[]).await;
        assert_eq!((exit, &answer["closed"]), (Some(1), &json!(false)), "{answer:#}{said}");
        assert_eq!(answer["tables"][0]["filtered"], 1, "{answer:#}");
        assert!(said.contains("1 row of public.outbox in no topic, left out by `where`"), "{said}");
        assert!(said.contains("recover --filtered send"), "{said}");
        let (exit, answer, said) = recover(&fixture, &["--filtered", filtered]).await;
        assert_eq!((exit, &answer["closed"]), (Some(0), &json!(true)), "{answer:#}{said}");
        let sent = usize::from(filtered == "send");
        assert_eq!(records(&fixture, id, "{}").await, sent, "{filtered}: {said}");
        fixture.restart().await.unwrap();
        fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    }
}

/// An index on the ids of a table does not reach over rows that were deleted.
#[tokio::test]
async fn the_record_of_a_former_row_with_the_same_id_is_no_record_of_a_row() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    insert(&fixture, &session, FIRST, r#"{"version": 1}"#).await;
    lose_the_slot(&mut fixture, &session).await;
    session.batch_execute(&format!("DELETE FROM outbox WHERE id = '{FIRST}'")).await.unwrap();
    insert(&fixture, &session, FIRST, r#"{"version": 2}"#).await;
    let (exit, _, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(
        said.contains("1 row of public.outbox in the scope of the gaps, with another"),
        "{said}"
    );
    let (exit, answer, said) = recover(&fixture, &["--all"]).await;
    assert_eq!((exit, &answer["closed"]), (Some(0), &json!(true)), "{answer:#}{said}");
    assert_eq!(records(&fixture, FIRST, r#""version": 2"#).await, 1, "{said}");
}

/// What is decided about, as another cluster has written it whose WAL was far ahead, and a skip of
/// an earlier version, which does not say of which cluster it is.
const OF_ANOTHER_CLUSTER: &str = "\
    UPDATE outbox_router.held_version SET system_id = '7'; \
    UPDATE outbox_router.held SET commit_lsn = 'FFFF/1'; \
    INSERT INTO outbox_router.decision \
        (pipeline, slot, commit_lsn, event_id, table_name, system_id, action) \
      SELECT pipeline, slot, 'FFFF/2', event_id, table_name, of_system, 'skip' \
      FROM outbox_router.held, (VALUES (null), ('7')) AS systems (of_system)";

/// Where the corrected row is after the dead letter was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Corrected {
    Here,
    OnAnotherCluster,
}

/// `dead-letters drop` says that a corrected row may be inserted; the id may be the same.
#[tokio::test]
async fn a_dropped_dead_letter_does_not_stand_for_the_corrected_row() {
    expect_corrected_sent(Corrected::Here).await;
}

/// Positions of another cluster's WAL say nothing of a gap of this one's.
#[tokio::test]
async fn a_decision_of_another_cluster_does_not_stand_for_a_row() {
    expect_corrected_sent(Corrected::OnAnotherCluster).await;
}

async fn expect_corrected_sent(corrected: Corrected) {
    let (mut fixture, session) = holding_bad_rows().await;
    let aggregate_type = fixture.schema.types.first().unwrap().clone();
    let bad = format!(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, headers) \
         VALUES ('{FIRST}', '{aggregate_type}', 'key', 'Changed', '[1]')"
    );
    session.batch_execute(&bad).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let drop = ["dead-letters", "drop", "--all", "--yes", "--admin-url", &url];
    let dropped = fixture.router.command(&drop).await.unwrap();
    assert!(dropped.status.success(), "{}", String::from_utf8_lossy(&dropped.stderr));
    // Until the decision is carried out, later events of the key are held.
    let is_done = |status: &serde_json::Value| status.pointer("/held/events") == Some(&json!(0));
    fixture.router.wait_status("the event is dropped", SHORT_DEADLINE, is_done).await.unwrap();
    insert(&fixture, &session, SECOND, "{}").await;
    lose_the_slot(&mut fixture, &session).await;
    session.batch_execute(&format!("DELETE FROM outbox WHERE id = '{FIRST}'")).await.unwrap();
    insert(&fixture, &session, FIRST, r#"{"corrected": 1}"#).await;
    if corrected == Corrected::OnAnotherCluster {
        session.batch_execute(OF_ANOTHER_CLUSTER).await.unwrap();
        let (exit, _, said) = recover(&fixture, &[]).await;
        assert_eq!(exit, Some(1), "{said}");
        assert!(said.contains("P036: ") && said.contains("dead-letters adopt"), "{said}");
        let slots = "SELECT count(*) FROM pg_replication_slots";
        let slots: i64 = session.query_one(slots, &[]).await.unwrap().get(0);
        assert_eq!(slots, 0, "nothing was made");
        // Without any held event, as where only a row was skipped, nothing asks for it.
        session.batch_execute("DELETE FROM outbox_router.held_version").await.unwrap();
        session.batch_execute("DELETE FROM outbox_router.held").await.unwrap();
    }
    expect_closed(&recover(&fixture, &[]).await, &[("decided", 0)]);
    assert_eq!(records(&fixture, FIRST, "corrected").await, 1);
}

/// The application has deleted a row and written a corrected one under its id, before the slot was
/// lost and the decision about the first was carried out: both are of the gap.
#[tokio::test]
async fn a_corrected_row_of_the_same_gap_is_asked_about_and_sent() {
    let (mut fixture, session) = holding_bad_rows().await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    let aggregate_type = fixture.schema.types.first().unwrap().clone();
    let skip = format!(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, headers) \
         VALUES ('{FIRST}', '{aggregate_type}', 'key', 'Changed', '[1]'); \
         INSERT INTO outbox_router.decision \
         (pipeline, slot, commit_lsn, event_id, action, table_name, system_id) \
         SELECT 'outbox-router', '{SLOT}', pg_current_wal_lsn(), '{FIRST}', 'skip', \
           'public.outbox', system_identifier::text FROM pg_control_system(); \
         DELETE FROM outbox WHERE id = '{FIRST}'"
    );
    session.batch_execute(&skip).await.unwrap();
    insert(&fixture, &session, FIRST, r#"{"corrected": 1}"#).await;
    drop_slot(&session).await;
    let (exit, _, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("1 missing row of public.outbox with the id of an event"), "{said}");
    assert!(said.contains("recover --ids-unique"), "{said}");
    expect_closed(&recover(&fixture, &["--all"]).await, &[("decided_sent", 1), ("sent", 1)]);
    assert_eq!(records(&fixture, FIRST, "corrected").await, 1);
}

/// Rows are compared from before the gap on, and what is held, or was dropped, stays so.
#[tokio::test]
async fn events_that_were_held_or_dropped_before_the_gap_are_left_out() {
    expect_decided_left_out(Renamed::Never).await;
}

/// What is held names its table as it was called then.
#[tokio::test]
async fn events_of_a_table_that_has_another_name_since_are_left_out() {
    expect_decided_left_out(Renamed::InTheGap).await;
}

#[derive(Clone, Copy, PartialEq)]
enum Renamed {
    Never,
    InTheGap,
}

async fn expect_decided_left_out(renamed: Renamed) {
    let (mut fixture, session) = holding_bad_rows().await;
    let aggregate_type = fixture.schema.types.first().unwrap().clone();
    for key in ["dropped", "held"] {
        let sql = format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, headers) \
             VALUES ('{aggregate_type}', '{key}', 'Changed', '[1]'); \
             INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) \
             VALUES ('{aggregate_type}', '{key}', 'Changed', '{{}}')"
        );
        session.batch_execute(&sql).await.unwrap();
        fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
        if key == "dropped" {
            let url = fixture.postgres.url(SUPERUSER, DATABASE);
            let drop =
                ["dead-letters", "drop", "--all", "--with-behind", "--yes", "--admin-url", &url];
            let dropped = fixture.router.command(&drop).await.unwrap();
            assert!(dropped.status.success(), "{}", String::from_utf8_lossy(&dropped.stderr));
        }
    }
    insert(&fixture, &session, FIRST, "{}").await;
    lose_the_slot(&mut fixture, &session).await;
    insert(&fixture, &session, SECOND, "{}").await;
    if renamed == Renamed::InTheGap {
        session.batch_execute("ALTER TABLE outbox RENAME TO events").await.unwrap();
        fixture.config.set_outbox("table", "public.events");
        fixture.rewrite_config().unwrap();
    }
    expect_closed(&recover(&fixture, &[]).await, &[("sent", 1), ("decided", 4)]);
}
