//! Hold and look: Kafka takes everything and answers nothing, while the WAL goes on.

use std::time::Duration;

use e2e::{SOON, Stage, committed, memory_limit};
use serde_json::Value;
use testbed::process::{cpu_time, thread_cpu_time};
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
async fn answers_held_back_hold_the_slot_but_neither_the_walsender_nor_memory() {
    let mut stage = Stage::builder()
        .proxied_kafka()
        .postgres("wal_sender_timeout", "6s")
        .set("limits.window_events", WINDOW)
        .start()
        .await
        .unwrap();
    write(&mut stage, 100).await.unwrap();
    stage.wait_delivered(DEADLINE).await.unwrap();
    stage.wait_confirmed(SOON).await.unwrap();

    stage.kafka_proxy().unwrap().set(ProxyMode::HoldAnswers).await.unwrap();
    let running = stage.load(load());
    committed(&running, 3 * WINDOW).await.unwrap();
    let full = |status: &Value| status["window"]["events"].as_u64().is_some_and(|n| n >= WINDOW);
    stage.router.wait_status("a full window", SOON, full).await.unwrap();
    // By now everything that was acknowledged before has been told.
    let held = stage.slot().await.unwrap();
    let in_kafka = stage.seen().await.unwrap().len();
    assert!(in_kafka > 100, "requests do not pass: this is an outage, not a silence");
    let memory = stage.router.process().unwrap().resident_bytes().unwrap();
    // librdkafka's thread for the broker may poll without pause meanwhile: docs/performance.md.
    // Nobody else may.
    let pid = stage.router.process().unwrap().pid();
    let of_broker = || thread_cpu_time(pid, "rdk:broker1").unwrap();
    let cpu = || cpu_time(pid).unwrap().saturating_sub(of_broker());
    let relay = || thread_cpu_time(pid, "relay").unwrap();
    let (cpu_before, relay_before) = (cpu(), relay());
    let (started, wal) = (Instant::now(), stage.postgres.current_wal_lsn().await.unwrap());
    let mut looks = interval(Duration::from_millis(250));
    while started.elapsed() < HELD {
        looks.tick().await;
        let slot = stage.slot().await.unwrap();
        assert_eq!(slot.confirmed_flush_lsn, held.confirmed_flush_lsn, "confirmed without acks");
        assert_eq!(slot.active_pid, held.active_pid, "the walsender was timed out");
    }
    let written = u64::from(stage.postgres.current_wal_lsn().await.unwrap()) - u64::from(wal);
    let grown = stage.router.process().unwrap().resident_bytes().unwrap().saturating_sub(memory);
    let busy = cpu().saturating_sub(cpu_before);
    let relay_busy = relay().saturating_sub(relay_before);
    println!(
        "{written} B of WAL went by in {HELD:?}; memory grew by {grown} B from {memory} B; {busy:?} of CPU"
    );
    assert!(written > 1_000_000, "hardly any WAL went by");
    assert!(busy < HELD / 10, "who waits does not work: {busy:?} of CPU in {HELD:?}");
    assert!(relay_busy < HELD / 20, "nor does the relay: {relay_busy:?} of CPU in {HELD:?}");
    assert!(grown <= FLAT, "memory grew by {grown} B");

    stage.kafka_proxy().unwrap().set(ProxyMode::Forward).await.unwrap();
    stage.note(running.stop().await.unwrap());
    stage.wait_delivered(DEADLINE).await.unwrap();
    stage.wait_confirmed(SOON).await.unwrap();
    let verdict = stage.verdict().await.unwrap().clean().unwrap();
    let peak = stage.router.process().unwrap().peak_resident_bytes().unwrap();
    println!("{verdict}\npeak of memory: {peak} B");
    assert_eq!(verdict.duplicates, 0, "nothing was interrupted");
    assert_eq!(stage.slot().await.unwrap().active_pid, held.active_pid);
    assert!(peak <= memory_limit(WINDOW_BYTES), "{peak} B");
}
