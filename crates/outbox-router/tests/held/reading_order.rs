//! How much of the table a session reads when it begins. That must not depend on how the keys lie
//! in it: with a million events and nothing in a cache, a page for each event takes minutes.

use std::time::Duration;

use relay::{
    Lsn,
    held::{HeldAnswer, HeldRequest, OpenCount},
};
use testbed::wait::eventually;

use super::fixture::{Fixture, event, id};

const EVENTS: u32 = 50_000;
const KEYS: u32 = 500;

const PAGES_READ: &str = "\
    select (heap_blks_read + heap_blks_hit)::int8 from pg_statio_user_tables where relname = 'held'";
const ARE_GONE: &str = "\
    select not exists (select from pg_stat_activity where application_name = 'orders')";

#[tokio::test]
async fn a_session_reads_each_page_of_the_table_once_whatever_the_order_of_the_keys() {
    let fixture = Fixture::with_table().await;
    fixture.run("alter table outbox_router.held set (autovacuum_enabled = false)").await;
    let mut store = fixture.store();
    store.load().await.unwrap();
    store.insert(vec![event(id(1, 0), "a")]).await.unwrap();
    drop(store);
    let copies = format!(
        "insert into outbox_router.held (pipeline, slot, commit_lsn, event_index, committed_at, \
           key, key_hash, event_id, table_name, messages) \
         select pipeline, slot, commit_lsn + g, event_index, committed_at, \
           key, sha256((g % {KEYS})::text::bytea), event_id, table_name, messages \
         from outbox_router.held, generate_series(1, {EVENTS}) g"
    );
    fixture.run(&copies).await;

    // A process reports what it has read, at the latest when it ends.
    let read = async || {
        let session = fixture.session().await;
        eventually(Duration::from_secs(20), "the end of every store", async || {
            let gone: bool = session.query_one(ARE_GONE, &[]).await?.get(0);
            Ok(gone.then_some(()))
        })
        .await
        .unwrap();
        session.query_one(PAGES_READ, &[]).await.unwrap().get::<_, i64>(0)
    };
    let before = read().await;
    let mut store = fixture.store();
    let load = HeldRequest::Load { since: Lsn::from_u64(1_000_000), open: OpenCount::Recorded };
    let HeldAnswer::Loaded(loaded) = store.ask(load).await.unwrap() else { panic!("no table") };
    drop(store);
    let keys = usize::try_from(KEYS).unwrap() + 1;
    assert_eq!(loaded.keys.len(), keys);
    let events: u64 = loaded.keys.iter().map(|(_, totals)| totals.events).sum();
    assert_eq!(events, u64::from(EVENTS) + 1);
    let pages = read().await - before;
    assert!(pages < i64::from(EVENTS) / 5, "{pages} pages were read");
}
