//! Ids that are given again, and rows that a role does not see.

use std::time::Duration;

use e2e::{Fixture, LONG_DEADLINE, SHORT_DEADLINE, SLOT};
use testbed::postgres::{DATABASE, DatabaseSession, ShutdownMode};
use testbed::wait::eventually;

use super::where_is;
use crate::gaps::copy_files;

async fn insert_day(session: &DatabaseSession, day: i32) {
    let sql = format!(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) \
         VALUES ('order', '7', 'Made', '{{\"day\": {day}}}')"
    );
    session.batch_execute(&sql).await.unwrap();
}

const NUMBERED: &str = "ALTER TABLE outbox DROP COLUMN id; \
     ALTER TABLE outbox ADD id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY";

const AGAIN: &str = "TRUNCATE outbox RESTART IDENTITY";

#[tokio::test]
async fn neither_a_former_row_with_the_id_nor_a_hidden_row_is_answered_for() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute(NUMBERED).await.unwrap();
    fixture.start_accepted().await.unwrap();
    insert_day(&session, 1).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    where_is(&fixture, &["1"]).await.expect("acknowledged", "at offset 0");
    fixture.kill_router().await.unwrap();
    session.batch_execute(AGAIN).await.unwrap();
    insert_day(&session, 2).await;
    session.batch_execute(&format!("SELECT pg_drop_replication_slot('{SLOT}')")).await.unwrap();
    testbed::postgres::create_slot(&session, SLOT, "pgoutput").await.unwrap();
    let answer = where_is(&fixture, &["1"]).await;
    answer.expect("gap", "1 record has its id and key with other content, the last at offset 0");
    // With the same content, the open gap tells, whether or not the record is read.
    session.batch_execute(AGAIN).await.unwrap();
    insert_day(&session, 1).await;
    where_is(&fixture, &["1"]).await.expect("gap", " in an open gap, P014@");

    let hidden = "CREATE ROLE own LOGIN REPLICATION; ALTER TABLE outbox OWNER TO own; \
         ALTER TABLE outbox ENABLE ROW LEVEL SECURITY; ALTER TABLE outbox FORCE ROW LEVEL SECURITY";
    session.batch_execute(hidden).await.unwrap();
    let url = fixture.postgres.url("own", DATABASE);
    for command in [&["where", "1"][..], &["accept"], &["recover", "--yes", "--ids-unique"]] {
        let line = [command, &["--admin-url", url.as_str()]].concat();
        let output = fixture.router.command(&line).await.unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        let said = said.concat();
        assert!(!output.status.success(), "{command:?} {said}");
        assert!(
            said.contains("may not see every row of public.outbox, because of row-level"),
            "{said}"
        );
        assert!(said.contains("alter role \"own\" bypassrls"), "{said}");
    }
}

/// Gives so many ids to transactions that write nothing.
async fn give_ids(session: &DatabaseSession, count: u32) {
    let give = format!(
        "DO $$ BEGIN FOR i IN 1..{count} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
    );
    session.batch_execute(&give).await.unwrap();
}

/// It gives ids again, of rows and of transactions: a row with an early one is not from before the
/// gap.
#[tokio::test]
async fn a_record_of_a_row_that_a_restore_has_lost_is_not_that_of_a_row_with_its_id() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute(NUMBERED).await.unwrap();
    fixture.start_accepted().await.unwrap();
    insert_day(&session, 1).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    let data = fixture.postgres.data_dir();
    let older = data.with_extension("older");
    copy_files(&data, &older);
    std::fs::remove_dir_all(older.join("pg_replslot").join(SLOT)).unwrap();
    fixture.postgres.start_again().await.unwrap();

    let session = fixture.session().await.unwrap();
    give_ids(&session, 300).await;
    fixture.restart().await.unwrap();
    let begun = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8 - 50";
    let begun: i64 = session.query_one(begun, &[]).await.unwrap().get(0);
    insert_day(&session, 2).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    eventually(LONG_DEADLINE, "a later horizon of the slot", async || {
        session.batch_execute("CHECKPOINT").await?;
        insert_day(&session, 3).await;
        let passed = "SELECT catalog_xmin::text::int8 > $1 FROM pg_replication_slots";
        let passed: bool = session.query_one(passed, &[&begun]).await?.get(0);
        Ok(passed.then_some(()))
    })
    .await
    .unwrap();
    // The witness has it with the next reading of the slot, and the next event.
    tokio::time::sleep(Duration::from_secs(6)).await;
    insert_day(&session, 3).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    where_is(&fixture, &["2"]).await.expect("acknowledged", "at offset 1");
    fixture.kill_router().await.unwrap();
    fixture.postgres.kill9().await.unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&older, &data).unwrap();
    fixture.postgres.start_again().await.unwrap();

    let session = fixture.session().await.unwrap();
    insert_day(&session, 2).await;
    give_ids(&session, 2_000).await;
    // Its WAL is longer than it was.
    for _ in 0..2 {
        session.batch_execute("CREATE TABLE filler (); DROP TABLE filler").await.unwrap();
        session.execute("SELECT pg_switch_wal()::text", &[]).await.unwrap();
    }
    // The record is older than the row, as one is whose time the application has set.
    let answer = where_is(&fixture, &["2", "--since", "1h"]).await;
    answer.expect("gap", "the row may lie in an open gap, P01");
}
