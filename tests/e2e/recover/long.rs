//! A slot that is dropped amid a load of at most 5,000 events a second.
//! `OUTBOX_RECOVER_SECONDS=600` is the long form of docs/testing.md.

use std::time::Duration;

use e2e::{Fixture, LONG_DEADLINE};
use testbed::load::{COMMITTED, Load, PayloadBytes};
use tokio::time::{Instant, sleep};

use super::{drop_slot, load, recover, streaming, wait_failed};

/// Of the load, half before the slot is dropped and half after.
const SECONDS: u64 = 6;

#[tokio::test]
async fn a_slot_dropped_amid_a_heavy_load_loses_none_and_repeats_none() {
    let seconds = std::env::var("OUTBOX_RECOVER_SECONDS");
    let seconds: u64 = seconds.ok().map_or(SECONDS, |seconds| seconds.parse().unwrap());
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    let heavy = Load {
        writers: 8,
        think: Duration::ZERO,
        payload: PayloadBytes { min: 1, max: 200 },
        events_per_second: Some(5_000),
        ..load()
    };
    let running = fixture.load(heavy);
    sleep(Duration::from_secs(seconds / 2)).await;
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    fixture.router.start_again().unwrap();
    wait_failed(&mut fixture, "P010").await;
    sleep(Duration::from_secs(seconds / 2)).await;

    let begun = Instant::now();
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    fixture.wait_streaming().await.unwrap();
    println!("recovered and streaming after {:?}: {answer:#}", begun.elapsed());
    fixture.note(running.stop().await.unwrap());
    fixture.wait_confirmed(LONG_DEADLINE + Duration::from_secs(seconds)).await.unwrap();
    let count = format!("SELECT (SELECT count(*) FROM outbox), (SELECT count(*) FROM {COMMITTED})");
    let counts = session.query_one(&count, &[]).await.unwrap();
    let [rows, committed]: [i64; 2] = [counts.get(0), counts.get(1)];
    assert_eq!(rows, committed, "nothing removes rows");
    println!("{committed} rows committed");
    let (missing, doubled) = fixture.missing_and_doubled(&session).await.unwrap();
    println!("missing {missing}, superfluous {doubled}");
    assert_eq!((missing, doubled), (0, 0));
}
