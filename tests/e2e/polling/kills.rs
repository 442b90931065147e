//! SIGKILL of each of the three processes, under load: nothing lost, order kept, and no more
//! repeated than one batch.

use std::time::Duration;

use e2e::{Interruptions, SHORT_DEADLINE, wait_committed};
use testbed::kafka::KafkaOptions;
use tokio::time::sleep;

use super::{BATCH, COLUMNS, load, polling, started, wait_polling, wait_published};

#[tokio::test]
async fn a_worker_killed_thirty_times_loses_nothing_and_repeats_at_most_a_batch() {
    const KILLS: u32 = 30;
    // A killed worker is replaced after its lease.
    let mut fixture = started(polling().set("polling.lease", "2s"), COLUMNS).await;
    let running = fixture.load(load());
    wait_committed(&running, 100).await.unwrap();
    let mut kills = Interruptions::default();
    for kill in 0..KILLS {
        sleep(Duration::from_millis(u64::from(kill * 37 % 400))).await;
        fixture.router.kill9().await.unwrap();
        kills.note(&fixture).await.unwrap();
        fixture.router.start_again().unwrap();
        wait_polling(&mut fixture.router).await;
    }
    fixture.note(running.stop().await.unwrap());
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    let duplicates = kills.duplicates(&fixture.seen().await.unwrap());
    println!("{result}\nduplicates after each kill: {duplicates:?}");
    assert_eq!(duplicates[0], 0, "duplicates before the first kill");
    assert!(result.duplicates > 0, "every kill hit an idle worker: the run is invalid");
    // A worker's keys are taken when its lease ends, so what two kills repeat may come after a
    // third.
    let mut until = 0;
    for (kills, count) in duplicates.iter().enumerate() {
        until += count;
        assert!(until <= kills * BATCH, "{until} duplicates after {kills} kills");
    }
}

#[tokio::test]
async fn a_server_killed_three_times_loses_nothing() {
    let mut fixture = started(polling().set("polling.lease", "2s"), COLUMNS).await;
    let running = fixture.load(load());
    for _ in 0..3 {
        wait_committed(&running, 200).await.unwrap();
        fixture.postgres.kill9().await.unwrap();
        fixture.router.wait_state("starting", SHORT_DEADLINE).await.unwrap();
        fixture.postgres.start_again().await.unwrap();
        wait_polling(&mut fixture.router).await;
    }
    fixture.note(running.stop().await.unwrap());
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert!(result.duplicates <= 3 * BATCH, "{result}");
}

#[tokio::test]
async fn a_broker_that_is_away_loses_nothing_and_costs_no_attempt() {
    let builder = polling().own_kafka(KafkaOptions::default());
    let mut fixture = started(builder, COLUMNS).await;
    let running = fixture.load(load());
    wait_committed(&running, 200).await.unwrap();
    fixture.kafka.owned().unwrap().broker(1).unwrap().kill9().await.unwrap();
    fixture.router.wait_state("blocked", SHORT_DEADLINE).await.unwrap();
    wait_committed(&running, 500).await.unwrap();
    fixture.kafka.owned().unwrap().broker(1).unwrap().start_again().await.unwrap();
    wait_polling(&mut fixture.router).await;
    fixture.note(running.stop().await.unwrap());
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert!(result.duplicates <= 2 * BATCH, "{result}");
    let failed = fixture.router.metric("outbox_polling_retries_total", "").await.unwrap();
    assert_eq!(failed.unwrap_or_default(), 0.0);
}
