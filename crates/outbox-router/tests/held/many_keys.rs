//! As many keys as may be held, in a table about which the server has no statistics: until it
//! analyzes a table, it knows nothing of what was written in the last minute.

use std::time::Duration;

use relay::{
    Lsn,
    held::{HeldAnswer, HeldRequest, KeyHash, Leaving, OpenCount, Outcome},
};
use tokio::time::Instant;

use super::fixture::{Fixture, ROUTER, id, letter};

const KEYS: u32 = 10_000;
const BATCH: u32 = 1_000;

/// Generous: together the requests take a second, and half a minute where a statement reads the
/// whole table for each key or event.
const LIMIT: Duration = Duration::from_secs(20);

/// What the server knows of the table.
enum Statistics {
    /// Nothing.
    None,
    /// What it had before the keys of this pipeline came.
    OfAnother,
}

#[tokio::test]
async fn ten_thousand_keys_are_read_and_released_in_time_without_statistics() {
    read_and_release(Statistics::None).await;
}

#[tokio::test]
async fn ten_thousand_keys_are_read_and_released_in_time_with_the_statistics_of_others() {
    read_and_release(Statistics::OfAnother).await;
}

async fn read_and_release(statistics: Statistics) {
    let fixture = Fixture::with_table().await;
    fixture.run("alter table outbox_router.held set (autovacuum_enabled = false)").await;
    if let Statistics::OfAnother = statistics {
        let mut other = fixture.store_of(ROUTER, "payments");
        other.load().await.unwrap();
        let of = |index| letter(id(1, index), &index.to_string());
        other.insert((0..BATCH).map(of).collect()).await.unwrap();
        fixture.run("analyze outbox_router.held").await;
    }
    let mut store = fixture.store();
    store.load().await.unwrap();
    for lsn in 1..=KEYS / BATCH {
        let of = |index| letter(id(lsn.into(), index), &format!("{lsn}-{index}"));
        store.insert((0..BATCH).map(of).collect()).await.unwrap();
    }

    let begun = Instant::now();
    let load = HeldRequest::Load { since: Lsn::from_u64(1_000_000), open: OpenCount::Recorded };
    let HeldAnswer::Loaded(loaded) = store.ask(load).await.unwrap() else { panic!("no table") };
    assert_eq!(loaded.keys.len(), 10_000);
    let mut after = loaded.mark.version;
    fixture.run("update outbox_router.held set state = 'dropping'").await;
    // PostgreSQL makes another plan of a statement when it has run some times.
    for left in (0..KEYS / BATCH).rev() {
        let HeldAnswer::Decided(keys) = store.ask(HeldRequest::ReadDecided).await.unwrap() else {
            panic!("no decisions")
        };
        assert_eq!(keys.len(), 1_000);
        let hashes: Vec<KeyHash> = keys.clone();
        let next = HeldRequest::ReadNext { keys, events: 1_000, bytes: 4 << 20 };
        let HeldAnswer::Next(events) = store.ask(next).await.unwrap() else { panic!("no events") };
        let mut of: Vec<KeyHash> = events.iter().map(|(event, _)| event.hash).collect();
        of.sort();
        assert_eq!(of, hashes, "the event of each key, and of no other");
        let leaving =
            events.iter().map(|(event, _)| Leaving { id: event.id, outcome: Outcome::Dropped });
        let close = HeldRequest::Close { leaving: leaving.collect(), after };
        let HeldAnswer::Closed(closed) = store.ask(close).await.unwrap() else { panic!("{left}") };
        after = closed.mark.version;
        assert_eq!(closed.first, hashes.into_iter().map(|key| (key, None)).collect::<Vec<_>>());
    }
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
}
