//! The outbox table changes: its columns here, its name in [`renames`], what inherits from it in
//! [`children`], in which partition its rows are in [`moves`].

use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE, text, wait_committed};
use serde_json::{Value, json};
use testbed::load::{COMMITTED, Load, Mix, Preset, Schema, TransactionKind};
use testbed::postgres::DatabaseSession;

mod children;
mod moves;
mod renames;

const DEADLINE: Duration = Duration::from_secs(60);

/// The number of an aggregate that no load writes to: our own transactions wait for no writer's
/// lock.
const OURS: i32 = 1_000;

async fn own_aggregate(session: &DatabaseSession) {
    let sql = format!("INSERT INTO testbed.aggregate VALUES ({OURS}, 'order-ours', 'order', 0)");
    session.batch_execute(&sql).await.unwrap();
}

/// What the monitor has found, by its code.
fn found<'a>(status: &'a Value, code: &str) -> Option<&'a Value> {
    let findings = status.pointer("/monitor/findings")?.as_array()?;
    findings.iter().find(|finding| text(finding, "/code") == Some(code))
}

/// One event of our own aggregate with its row in [`COMMITTED`], by the name that the key's column
/// has now.
async fn insert(session: &DatabaseSession, key: &str) {
    insert_into(session, "outbox", key).await;
}

/// The same, by the name that the table has now.
async fn insert_into(session: &DatabaseSession, table: &str, key: &str) {
    let sql = format!(
        "WITH a AS (UPDATE testbed.aggregate SET seq = seq + 1 WHERE n = {OURS} RETURNING *), \
         o AS (INSERT INTO {table} (aggregate_type, {key}, event_type, payload) \
               SELECT type, id, 'Changed', jsonb_build_object('seq', seq) FROM a RETURNING *) \
         INSERT INTO {COMMITTED} (id, aggregate_type, aggregate_id, seq, event_type, payload_bytes, payload_sha256) \
         SELECT o.id, type, a.id, seq, event_type, octet_length(payload::text), \
                sha256(convert_to(payload::text, 'UTF8')) FROM a, o"
    );
    assert_eq!(session.execute(&sql, &[]).await.unwrap(), 1);
}

#[tokio::test]
async fn columns_added_and_dropped_under_load_leave_every_row_delivered_in_order() {
    let mut fixture = Fixture::builder()
        .schema(Schema::new(Preset::Default).aggregates(40))
        .start()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    own_aggregate(&session).await;
    // A single statement locks the table before its aggregate, the others after it: with a waiting
    // ALTER TABLE between them that is a deadlock, of which this is not about.
    let mix = Mix::default().without(TransactionKind::Single);
    let running = fixture.load(Load { writers: 6, mix, ..Load::default() });
    wait_committed(&running, 100).await.unwrap();
    for change in [
        "ADD COLUMN tenant int DEFAULT 7",
        "RENAME COLUMN tenant TO customer",
        // These two rewrite the table, which writes no INSERT.
        "ADD COLUMN rank float8 DEFAULT random()",
        "ALTER COLUMN event_type TYPE varchar(300)",
        "DROP COLUMN customer",
        "DROP COLUMN created_at",
    ] {
        session.batch_execute(&format!("ALTER TABLE outbox {change}")).await.unwrap();
        wait_committed(&running, 50).await.unwrap();
    }
    for number in 0..3 {
        session.batch_execute("BEGIN").await.unwrap();
        insert(&session, "aggregate_id").await;
        for change in [
            format!("ADD COLUMN note_{number} text DEFAULT 'n'"),
            format!("RENAME COLUMN note_{number} TO remark"),
            "DROP COLUMN remark".to_owned(),
        ] {
            session.batch_execute(&format!("ALTER TABLE outbox {change}")).await.unwrap();
            insert(&session, "aggregate_id").await;
        }
        session.batch_execute(if number == 1 { "ROLLBACK" } else { "COMMIT" }).await.unwrap();
        wait_committed(&running, 20).await.unwrap();
    }
    let journal = running.stop().await.unwrap();
    assert_eq!(journal.failures, 0);
    fixture.note(journal);

    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0, "duplicates without any fault");
}

#[tokio::test]
async fn a_renamed_mapped_column_stops_the_router_until_the_mapping_names_it() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    let session = fixture.session().await.unwrap();
    own_aggregate(&session).await;
    let load = Load { events: Some(300), ..Load::default() };
    let journal = fixture.load(load).finished().await.unwrap();
    fixture.note(journal);
    insert(&session, "aggregate_id").await;
    let before = fixture.truth().await.unwrap().events.len();
    let settled = fixture.postgres.current_wal_lsn().await.unwrap();

    // Its first row still has the old name.
    session.batch_execute("BEGIN").await.unwrap();
    insert(&session, "aggregate_id").await;
    session.batch_execute("ALTER TABLE outbox RENAME COLUMN aggregate_id TO agg_id").await.unwrap();
    insert(&session, "agg_id").await;
    session.batch_execute("COMMIT").await.unwrap();
    insert(&session, "agg_id").await;

    let status = fixture.router.wait_state("failed", SHORT_DEADLINE).await.unwrap();
    let reason = &status["reason"];
    let message = reason["message"].as_str().unwrap();
    assert!(message.contains("public.outbox") && message.contains("aggregate_id"), "{status}");
    assert!(reason["hint"].as_str().unwrap().contains("columns."), "{status}");
    assert!(fixture.router.log().contains(reason["code"].as_str().unwrap()));
    let is_confirmed = async || {
        let confirmed = fixture.confirmed().await?;
        Ok((confirmed >= settled).then_some(confirmed))
    };
    let confirmed =
        testbed::wait::eventually(SHORT_DEADLINE, "what came before", is_confirmed).await.unwrap();
    let seen = fixture.seen().await.unwrap();
    assert_eq!(seen.len(), before + 1, "a later row was produced");
    assert_eq!(fixture.confirmed().await.unwrap(), confirmed);

    fixture.kill_router().await.unwrap();
    fixture.config.set_outbox("columns.aggregate_id", json!(["aggregate_id", "agg_id"]));
    fixture.rewrite_config().unwrap();
    fixture.restart().await.unwrap();
    insert(&session, "agg_id").await;
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 1, "only the first row of the open transaction may come again");
}
