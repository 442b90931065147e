//! One poisoned row among a hundred thousand, and a kill at the two moments that matter.

use e2e::SHORT_DEADLINE;
use testbed::load::{Preset, Schema};
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;

use super::bulk::{create_functions, write_poison, write_transactions};
use super::{
    LONG_DEADLINE, builder, decide_about_all, open, remove_cause, started, states, wait_closed,
};

/// Waits until the router waits for a row that another session has locked.
async fn wait_blocked(session: &DatabaseSession) {
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE wait_event_type = 'Lock' AND query LIKE '%outbox_router.held%'";
    eventually(SHORT_DEADLINE, "a router that waits for a locked row", async || {
        Ok((session.query_one(sql, &[]).await?.get::<_, i64>(0) > 0).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn one_poisoned_row_among_100000_holds_only_its_key_and_leaves_in_order_through_kills() {
    const KEYS: i32 = 10;
    const POISONED: i32 = 3;
    /// Events of each key on either side of the poisoned row.
    const EACH: i64 = 5_000;
    const BATCH: i64 = 1_000;
    let schema = Schema::new(Preset::Default).aggregates(KEYS);
    let (mut fixture, session) = started(builder().schema(schema)).await;
    create_functions(&session).await;
    write_transactions(&session, 100, KEYS, 50).await;
    write_poison(&session, POISONED).await;
    write_transactions(&session, 100, KEYS, 50).await;

    // Killed while the key is held, and others are being delivered.
    eventually(LONG_DEADLINE, "a held key", async || {
        Ok((open(&session).await.1 == 1).then_some(()))
    })
    .await
    .unwrap();
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    fixture.wait_confirmed(LONG_DEADLINE).await.unwrap();
    assert_eq!(open(&session).await, (EACH + 1, 1), "the row, and what follows it in its key");
    let held = usize::try_from(EACH + 1).unwrap();
    let result = fixture.check().await.unwrap();
    println!("while one key is held: {result}");
    assert_eq!((result.sent, result.lost.count()), (100_001, held), "{:?}", result.examples());
    assert_eq!(result.examples().len(), result.lost.examples().len(), "{:?}", result.examples());
    let before = result.duplicates;

    // Killed while the third batch is delivered, and not closed in the table.
    let mut blocker = fixture.session().await.unwrap();
    let transaction = blocker.transaction().await.unwrap();
    let lock = "SELECT FROM outbox_router.held WHERE (commit_lsn, event_index) = \
                  (SELECT commit_lsn, event_index FROM outbox_router.held \
                   ORDER BY commit_lsn, event_index OFFSET 2500 LIMIT 1) FOR UPDATE";
    assert_eq!(transaction.execute(lock, &[]).await.unwrap(), 1);
    remove_cause(&mut fixture).await;
    decide_about_all(&fixture, "requeue").await;
    wait_blocked(&session).await;
    fixture.kill_router().await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(states(&session).await.get("delivered"), Some(&(2 * BATCH)));
    fixture.restart().await.unwrap();
    wait_closed(&session).await;

    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    println!("after the release: {result}");
    assert_eq!(states(&session).await, [("delivered".to_owned(), EACH + 1)].into());
    let repeated = i64::try_from(result.duplicates - before).unwrap();
    assert_eq!(repeated, BATCH, "the batch that was delivered, and not closed");
}
