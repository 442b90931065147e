//! A slot that is dropped amid a load of 5,000 rows a second.
//! `OUTBOX_RECOVER_SECONDS=3600` is the long form of docs/testing.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::{Fixture, LONG_DEADLINE};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::{drop_slot, recover, streaming, wait_failed};

/// Of the load, half before the slot is dropped and half after.
const SECONDS: u64 = 6;
/// Each of the writers commits a transaction of so many rows, this often.
const WRITERS: usize = 5;
const ROWS: u64 = 20;
const EVERY: Duration = Duration::from_millis(20);

/// Writers that use less of the machine than those of `testbed::load`.
async fn start_writers(fixture: &Fixture, stop: &Arc<AtomicBool>) -> JoinSet<u64> {
    let aggregate_type = fixture.schema.types.first().unwrap().clone();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let session = fixture.session().await.unwrap();
        let sql = format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) \
             SELECT '{aggregate_type}', 'w{writer}-' || n % 7, 'Changed', \
               jsonb_build_object('n', n, 'pad', repeat('x', 100)) \
             FROM generate_series(1, {ROWS}) n"
        );
        let stop = Arc::clone(stop);
        writers.spawn(async move {
            let insert = session.prepare(&sql).await.unwrap();
            let mut due = interval(EVERY);
            due.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut written = 0;
            while !stop.load(Ordering::Relaxed) {
                due.tick().await;
                written += session.execute(&insert, &[]).await.unwrap();
            }
            written
        });
    }
    writers
}

#[tokio::test]
async fn a_slot_dropped_amid_a_heavy_load_loses_none_and_repeats_none() {
    let seconds = std::env::var("OUTBOX_RECOVER_SECONDS");
    let seconds: u64 = seconds.ok().map_or(SECONDS, |seconds| seconds.parse().unwrap());
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    let stop = Arc::default();
    let writers = start_writers(&fixture, &stop).await;
    let begun = Instant::now();
    sleep(Duration::from_secs(seconds / 2)).await;
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    fixture.router.start_again().unwrap();
    wait_failed(&mut fixture, "P010").await;
    sleep(Duration::from_secs(seconds / 2)).await;

    let asked = Instant::now();
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    fixture.wait_streaming().await.unwrap();
    println!("recovered and streaming after {:?}: {answer:#}", asked.elapsed());
    stop.store(true, Ordering::Relaxed);
    let written: u64 = writers.join_all().await.into_iter().sum();
    let rate = written.checked_div(begun.elapsed().as_secs());
    println!("{written} rows written, {rate:?} a second");
    fixture.wait_confirmed(LONG_DEADLINE + Duration::from_secs(seconds)).await.unwrap();
    let (missing, doubled) = fixture.missing_and_doubled(&session).await.unwrap();
    println!("missing {missing}, superfluous {doubled}");
    assert_eq!((missing, doubled), (0, 0));
}
