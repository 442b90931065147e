//! Many events of one key, in a table about which the server has no statistics.

use std::time::Duration;

use relay::held::{HeldAnswer, HeldRequest, Leaving, Outcome};
use tokio::time::Instant;

use super::fixture::{Fixture, event, id};

const EVENTS: u64 = 100_000;
const BATCH: u64 = 1_000;
const BATCHES: u64 = 10;

/// Generous: together the requests take a second, and half a minute where a statement reads the
/// events of the key that come before, for each of a batch.
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn what_leaves_behind_a_hundred_thousand_events_of_its_key_is_closed_in_time() {
    let fixture = Fixture::with_table().await;
    fixture.run("alter table outbox_router.held set (autovacuum_enabled = false)").await;
    let mut store = fixture.store();
    store.load().await.unwrap();
    let inserted = store.insert(vec![event(id(1, 0), "a")]).await.unwrap();
    let HeldAnswer::Inserted(mark) = inserted else { panic!("{inserted:?}") };
    let copies = format!(
        "insert into outbox_router.held (pipeline, slot, commit_lsn, event_index, committed_at, \
           key, key_hash, event_id, table_name, messages) \
         select pipeline, slot, commit_lsn + g, event_index, committed_at, \
           key, key_hash, event_id, table_name, messages \
         from outbox_router.held, generate_series(1, {EVENTS} - 1) g"
    );
    fixture.run(&copies).await;

    let begun = Instant::now();
    let mut after = mark.version;
    for batch in 1..=BATCHES {
        let first = EVENTS - batch * BATCH + 1;
        let leaving =
            (first..first + BATCH).map(|lsn| Leaving { id: id(lsn, 0), outcome: Outcome::Dropped });
        let close = HeldRequest::Close { leaving: leaving.collect(), after };
        let HeldAnswer::Closed(closed) = store.ask(close).await.unwrap() else { panic!("{batch}") };
        after = closed.mark.version;
        let [(_, Some((left, _)))] = closed.first.as_slice() else { panic!("{closed:?}") };
        assert_eq!(*left, id(1, 0));
    }
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    let sql = "select count(*) from outbox_router.held where state = 'dropped'";
    let closed: i64 = fixture.session().await.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(u64::try_from(closed).unwrap(), BATCH * BATCHES);
}
