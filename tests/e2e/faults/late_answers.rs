//! Kafka stores every record and its responses are held back, while WAL is written.

use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE, memory_limit, wait_committed};
use serde_json::Value;
use testbed::process::{cpu_time, peak_data_bytes, resident_bytes, thread_cpu_time};
use testbed::proxy::ProxyMode;
use tokio::time::{Instant, interval};

use super::{DEADLINE, load, write};

/// Longer than either time limit: the server's, and the ten seconds that the router asks for at
/// start-up (which is the one in force: a start-up packet is stronger than file, database and
/// role).
const HELD: Duration = Duration::from_secs(13);

const WINDOW: u64 = 500;

/// Noise in memory that is not growth.
const FLAT: u64 = 8 * 1024 * 1024;

const WINDOW_BYTES: u64 = 32 * 1024 * 1024;

#[tokio::test]
async fn held_acks_hold_the_slot_back_and_neither_time_out_the_walsender_nor_grow_memory() {
    let mut fixture = Fixture::builder()
        .proxied_kafka()
        .postgres("wal_sender_timeout", "6s")
        .set("limits.window_events", WINDOW)
        .start()
        .await
        .unwrap();
    write(&mut fixture, 100).await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();

    fixture.kafka_proxy().unwrap().set(ProxyMode::HoldAnswers).await.unwrap();
    let running = fixture.load(load());
    wait_committed(&running, 3 * WINDOW).await.unwrap();
    let full = |status: &Value| status["window"]["events"].as_u64().is_some_and(|n| n >= WINDOW);
    fixture.router.wait_status("a full window", SHORT_DEADLINE, full).await.unwrap();
    // By now everything that was acknowledged before is confirmed.
    let held = fixture.slot().await.unwrap();
    let in_kafka = fixture.seen().await.unwrap().len();
    assert!(in_kafka > 100, "no records reach Kafka, so the proxy holds back more than responses");
    let pid = fixture.router.process().unwrap().pid();
    let memory = resident_bytes(pid).unwrap();
    // librdkafka's thread for the broker may poll without pause meanwhile: docs/performance.md.
    // Nobody else may.
    let of_broker = || thread_cpu_time(pid, "rdk:broker1").unwrap();
    let cpu = || cpu_time(pid).unwrap().saturating_sub(of_broker());
    let relay = || thread_cpu_time(pid, "relay").unwrap();
    let (cpu_before, relay_before) = (cpu(), relay());
    let (started, wal) = (Instant::now(), fixture.postgres.current_wal_lsn().await.unwrap());
    let mut samples = interval(Duration::from_millis(250));
    while started.elapsed() < HELD {
        samples.tick().await;
        let slot = fixture.slot().await.unwrap();
        assert_eq!(
            slot.confirmed_flush_lsn, held.confirmed_flush_lsn,
            "a position was confirmed without acknowledgements"
        );
        assert_eq!(slot.active_pid, held.active_pid, "the walsender was timed out");
    }
    let written = u64::from(fixture.postgres.current_wal_lsn().await.unwrap()) - u64::from(wal);
    let grown = resident_bytes(pid).unwrap().saturating_sub(memory);
    let busy = cpu().saturating_sub(cpu_before);
    let relay_busy = relay().saturating_sub(relay_before);
    println!(
        "{written} B of WAL went by in {HELD:?}; memory grew by {grown} B from {memory} B; {busy:?} of CPU"
    );
    assert!(written > 1_000_000, "too little WAL was written");
    assert!(busy < HELD / 10, "a waiting router used {busy:?} of CPU time in {HELD:?}");
    assert!(
        relay_busy < HELD / 20,
        "the waiting relay thread used {relay_busy:?} of CPU time in {HELD:?}"
    );
    assert!(grown <= FLAT, "memory grew by {grown} B");

    fixture.kafka_proxy().unwrap().set(ProxyMode::Forward).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    let peak = peak_data_bytes(pid).unwrap();
    println!("{result}\npeak of memory: {peak} B");
    assert_eq!(result.duplicates, 0, "duplicates although nothing was interrupted");
    assert_eq!(fixture.slot().await.unwrap().active_pid, held.active_pid);
    assert!(peak <= memory_limit(WINDOW_BYTES), "{peak} B");
}
