//! SIGKILL of each of the three processes, under load: nothing lost, order kept, and no more
//! repeated than was unconfirmed.
//!
//! After every kill, and before anything may go on, the slot is held against Kafka: what lies at or
//! before `confirmed_flush_lsn` is never sent again, so it has to be there. No tolerance in time is
//! needed for that, because everything stands still.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use e2e::{
    Fixture, Interruptions, SHORT_DEADLINE, largest_transaction, memory_limit, wait_committed,
};
use serde_json::Value;
use testbed::kafka::KafkaOptions;
use testbed::load::{Load, PayloadBytes};
use testbed::process::{peak_data_bytes, resident_bytes};
use tokio::time::{Instant, interval, sleep};
use tokio_postgres::types::PgLsn;

const DEADLINE: Duration = Duration::from_secs(90);

/// Small, so that it is the limit on duplicates and not merely above it.
const WINDOW: usize = 300;

fn load() -> Load {
    Load { writers: 8, think: Duration::from_millis(20), ..Load::default() }
}

/// Another part of `span` each time: kills must hit other moments in every run.
fn random_part_of(span: Duration) -> Duration {
    let parts = u32::try_from(RandomState::new().hash_one(0) % 1000).unwrap_or_default();
    span * parts / 1000
}

#[tokio::test]
async fn a_router_killed_thirty_times_loses_nothing_and_repeats_at_most_its_window() {
    const KILLS: usize = 30;
    let mut fixture = Fixture::builder()
        .set("limits.window_events", WINDOW)
        .track_commits()
        .start()
        .await
        .unwrap();
    let running = fixture.load(load());
    wait_committed(&running, 100).await.unwrap();

    let mut kills = Interruptions::default();
    let mut confirmed = Vec::new();
    for kill in 0..KILLS {
        sleep(random_part_of(Duration::from_millis(400))).await;
        fixture.kill_router().await.unwrap();
        confirmed.push(fixture.check_confirmed_events_are_in_kafka().await.unwrap());
        kills.note(&fixture).await.unwrap();
        // One in three is killed again on its way to the stream, or just there.
        match kill % 3 {
            0 => fixture.router.start_again().unwrap(),
            _ => fixture.restart().await.unwrap(),
        }
    }
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();

    let result = fixture.check().await.unwrap().clean().unwrap();
    let duplicates = kills.duplicates(&fixture.seen().await.unwrap());
    println!(
        "{result}\nconfirmed at each kill: {confirmed:?}\nduplicates after each kill: {duplicates:?}"
    );
    assert!(confirmed.is_sorted(), "confirmed_flush_lsn went back");
    assert_eq!(duplicates[0], 0, "duplicates before the first kill");
    assert!(
        result.duplicates > 0,
        "no kill caused a duplicate, so every kill hit an idle router: the run is invalid"
    );
    let limit = WINDOW + largest_transaction(&fixture.truth().await.unwrap());
    assert!(duplicates.iter().all(|count| *count <= limit), "more than {limit} after one kill");
}

#[tokio::test]
async fn a_server_killed_five_times_loses_nothing_and_repeats_at_most_the_window() {
    const KILLS: usize = 5;
    let mut fixture = Fixture::builder()
        .set("limits.window_events", WINDOW)
        .track_commits()
        .start()
        .await
        .unwrap();
    let running = fixture.load(load());

    let mut kills = Interruptions::default();
    let mut forgotten = Vec::new();
    for _ in 0..KILLS {
        wait_committed(&running, 150).await.unwrap();
        // Only here the server saves its slots: without it, every kill would have all sent again.
        fixture.session().await.unwrap().batch_execute("CHECKPOINT").await.unwrap();
        wait_committed(&running, 150).await.unwrap();
        sleep(random_part_of(Duration::from_millis(300))).await;
        fixture.postgres.kill9().await.unwrap();
        let status =
            fixture.router.wait_status("the loss of its server", SHORT_DEADLINE, is_starting).await;
        let sent = last_sent_position(&status.unwrap()).unwrap();
        // While it is frozen, the router can neither confirm nor send, so the slot can be read.
        fixture.router.pause().unwrap();
        fixture.postgres.start_again().await.unwrap();
        let saved = fixture.check_confirmed_events_are_in_kafka().await.unwrap();
        kills.note(&fixture).await.unwrap();
        forgotten.push(fixture.events_until(sent).await.unwrap() - saved);
        fixture.router.resume().unwrap();
        fixture.wait_streaming().await.unwrap();
    }
    let journal = running.stop().await.unwrap();
    assert!(journal.failures >= u64::try_from(KILLS).unwrap(), "no writer noticed the kills");
    fixture.note(journal);
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();

    let result = fixture.check().await.unwrap().clean().unwrap();
    let duplicates = kills.duplicates(&fixture.seen().await.unwrap());
    println!(
        "{result}\nevents that the slot sent again: {forgotten:?}\nduplicates: {duplicates:?}"
    );
    assert_eq!(duplicates[0], 0, "duplicates before the first kill");
    assert!(
        forgotten.iter().any(|events| *events > 0),
        "the slot lost no position in any crash: the run is invalid"
    );
    // What the slot forgot is sent again by the server, and the witness says that Kafka has it.
    let limit = WINDOW + largest_transaction(&fixture.truth().await.unwrap());
    assert!(duplicates.iter().all(|count| *count <= limit), "more than {limit} after one kill");
}

fn is_starting(status: &Value) -> bool {
    status.get("state").is_some_and(|state| state == "starting")
}

/// The last position that the router sent, as the router reports it: used as an upper limit only.
fn last_sent_position(status: &Value) -> Option<PgLsn> {
    status.pointer("/positions/confirmed")?.as_str()?.parse().ok()
}

#[tokio::test]
async fn a_broker_down_for_thirty_seconds_blocks_the_router_and_loses_nothing() {
    const OUTAGE: Duration = Duration::from_secs(30);
    const WINDOW_BYTES: u64 = 16 * 1024 * 1024;
    const WINDOW: usize = 4_000;
    /// Noise in memory that is not growth.
    const FLAT: u64 = 8 * 1024 * 1024;
    let mut fixture = Fixture::builder()
        .own_kafka(KafkaOptions::default())
        .set("limits.window_events", WINDOW)
        .set("limits.window_bytes", "16MiB")
        .start()
        .await
        .unwrap();
    let payload = PayloadBytes { min: 1, max: 8_000 };
    let running = fixture.load(Load { payload, ..load() });
    wait_committed(&running, 500).await.unwrap();
    fixture.kafka.owned().unwrap().kill9().await.unwrap();

    let gone = Instant::now();
    let blocked = fixture.router.wait_state("blocked", SHORT_DEADLINE).await.unwrap();
    println!("blocked after {:?}: {}", gone.elapsed(), blocked["reason"]);
    assert_eq!(blocked["blame"], "kafka");
    assert_eq!(fixture.router.get("/readyz").await.unwrap().status, 503);
    wait_committed(&running, 5_000).await.unwrap();
    // By now everything that was acknowledged before is confirmed.
    let held = fixture.slot().await.unwrap();
    let pid = fixture.router.process().unwrap().pid();
    let memory = resident_bytes(pid).unwrap();
    let mut samples = interval(Duration::from_millis(500));
    while gone.elapsed() < OUTAGE {
        samples.tick().await;
        let slot = fixture.slot().await.unwrap();
        assert_eq!(slot.active_pid, held.active_pid, "the walsender was timed out");
        assert_eq!(
            slot.confirmed_flush_lsn, held.confirmed_flush_lsn,
            "a position was confirmed without acknowledgements"
        );
        assert_eq!(fixture.status().await.unwrap()["state"], "blocked");
    }
    let grown = resident_bytes(pid).unwrap().saturating_sub(memory);
    assert!(grown <= FLAT, "memory grew by {grown} B while nothing moved");

    fixture.kafka.owned().unwrap().start_again().await.unwrap();
    let back = Instant::now();
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    println!("streaming {:?} after the broker came back", back.elapsed());
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    let peak = peak_data_bytes(pid).unwrap();
    println!("{result}\npeak of memory: {peak} B");
    assert_eq!(
        fixture.slot().await.unwrap().active_pid,
        held.active_pid,
        "the router reconnected to PostgreSQL"
    );
    let limit = WINDOW + largest_transaction(&fixture.truth().await.unwrap());
    assert!(result.duplicates <= limit, "more than {limit} duplicates");
    assert!(peak <= memory_limit(WINDOW_BYTES), "the peak of resident memory is above its limit");
}
