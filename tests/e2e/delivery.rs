//! What flows when nothing breaks, and what must not flow while one part of Kafka stands still.

use std::time::Duration;

use e2e::{SOON, Stage};
use testbed::kafka;
use testbed::load::{
    Load, Pace, Partitioning, PayloadBytes, Preset, Running, Schema, big_transaction,
};
use testbed::truth::Format;
use testbed::wait::eventually;
use tokio::time::{Instant, interval};
use tokio_postgres::types::PgLsn;

const DEADLINE: Duration = Duration::from_secs(90);

/// DESIGN §9: resident memory stays below 40 MB and three windows, whatever happens.
const fn memory_limit(window_bytes: u64) -> u64 {
    40 * 1_000_000 + 3 * window_bytes
}

const DEFAULT_WINDOW_BYTES: u64 = 32 * 1024 * 1024;

/// Everything written so far is in Kafka once, in order, and confirmed.
async fn expect_exactly_once(stage: &Stage) {
    stage.wait_delivered(DEADLINE).await.unwrap();
    stage.wait_confirmed(SOON).await.unwrap();
    let verdict = stage.verdict().await.unwrap().clean().unwrap();
    assert_eq!(verdict.duplicates, 0, "duplicates without any fault");
}

#[tokio::test]
async fn thirty_writers_and_a_transaction_of_200000_rows_arrive_once_and_in_order() {
    let schema = Schema::new(Preset::Default).types(&["order", "invoice", "payment"]);
    let mut stage = Stage::builder().schema(schema.aggregates(250)).start().await.unwrap();
    let running = stage.load(Load {
        writers: 30,
        pace: Pace::AsFastAsPossible { think: Duration::from_millis(10) },
        ..Load::default()
    });
    committed(&running, 500).await;
    let session = stage.session().await.unwrap();
    let big = big_transaction(&session, &stage.schema, 200_000, 50).await.unwrap();
    assert_eq!(big, 200_000);
    committed(&running, 500).await;
    let journal = running.stop().await.unwrap();
    assert_eq!(journal.failures, 0);
    assert!(journal.never.len() > 20, "hardly anything was rolled back");
    stage.note(journal);

    expect_exactly_once(&stage).await;
    let peak = stage.router.process().unwrap().peak_resident_bytes().unwrap();
    let limit = memory_limit(DEFAULT_WINDOW_BYTES);
    assert!(peak <= limit, "{peak} B resident, more than {limit} B");
}

#[tokio::test]
async fn a_partitioned_outbox_is_one_outbox() {
    let schema = Schema::new(Preset::Default).types(&["order", "invoice"]);
    let schema = schema.partitioned(Partitioning::Hash).aggregates(40);
    let mut stage = Stage::builder().schema(schema).start().await.unwrap();
    let load = Load { writers: 8, events: Some(1500), ..Load::default() };
    let journal = stage.load(load).finished().await.unwrap();
    assert_eq!(journal.failures, 0);
    stage.note(journal);
    expect_exactly_once(&stage).await;
}

#[tokio::test]
async fn a_debezium_outbox_becomes_the_records_that_its_consumers_know() {
    let schema = Schema::new(Preset::Debezium).types(&["order", "invoice"]);
    let mut stage = Stage::builder().schema(schema).format(Format::Debezium).start().await.unwrap();
    let load = Load {
        writers: 4,
        payload: PayloadBytes { min: 1, max: 20_000 },
        events: Some(500),
        ..Load::default()
    };
    let journal = stage.load(load).finished().await.unwrap();
    stage.note(journal);
    // The judge holds each record against its row: key, value, and header `id` alone.
    expect_exactly_once(&stage).await;
}

#[tokio::test]
async fn one_silent_leader_holds_everything_back_within_the_window() {
    const WINDOW: u64 = 1_000;
    // A transaction of the load, or what commits while a look is taken.
    const SLACK: u64 = 200;
    let mut stage = Stage::builder()
        .own_kafka(kafka::Options::default().brokers(3))
        .without_topics()
        .set("limits.window_events", WINDOW)
        .prepare()
        .await
        .unwrap();
    let topic = stage.topics[0].clone();
    stage.kafka.create_topic_on(&topic, &[1, 2, 3]).await.unwrap();
    stage.restart().await.unwrap();
    let running = stage.load(Load { writers: 6, ..Load::default() });
    committed(&running, 500).await;

    stage.kafka.mine().unwrap().broker(3).unwrap().pause().unwrap();
    let before_pause = running.committed();
    committed(&running, 3 * WINDOW).await;
    let healthy = async || stage.end_offsets_of(&topic, &[0, 1]).await.unwrap();
    let (held, confirmed) = (healthy().await, stage.confirmed().await.unwrap());
    let in_kafka = u64::try_from(held.iter().sum::<i64>()).unwrap();
    let limit = before_pause + WINDOW + SLACK;
    assert!(in_kafka <= limit, "{in_kafka} records ran on, more than {limit}");
    committed(&running, WINDOW).await;
    assert_eq!(healthy().await, held, "the other partitions ran on");
    assert_eq!(stage.confirmed().await.unwrap(), confirmed);

    stage.kafka.mine().unwrap().broker(3).unwrap().resume().unwrap();
    stage.note(running.stop().await.unwrap());
    stage.wait_delivered(DEADLINE).await.unwrap();
    stage.wait_confirmed(SOON).await.unwrap();
    let verdict = stage.verdict().await.unwrap().clean().unwrap();
    let duplicates = u64::try_from(verdict.duplicates).unwrap();
    assert!(duplicates <= WINDOW + SLACK, "{duplicates} duplicates");
    let peak = stage.router.process().unwrap().peak_resident_bytes().unwrap();
    let limit = memory_limit(DEFAULT_WINDOW_BYTES);
    assert!(peak <= limit, "{peak} B resident, more than {limit} B");
}

/// How often the router tells the server where it is: a third of its `wal_sender_timeout`.
const STATUS_INTERVAL: Duration = Duration::from_millis(3_334);

#[tokio::test]
async fn an_idle_outbox_pins_no_wal_while_another_database_writes() {
    const CHUNKS: usize = 40;
    let stage = Stage::builder().start().await.unwrap();
    stage.session().await.unwrap().batch_execute("CREATE DATABASE other").await.unwrap();
    let other = stage.postgres.connect_to("other").await.unwrap();
    other.batch_execute("CREATE TABLE filler (text text)").await.unwrap();
    let start = stage.postgres.current_wal_lsn().await.unwrap();

    // 200 MB over more than three status intervals; after each chunk a look at both positions.
    let mut looks: Vec<(Instant, PgLsn, PgLsn)> = Vec::new();
    let mut pace = interval(3 * STATUS_INTERVAL / u32::try_from(CHUNKS).unwrap());
    for _ in 0..CHUNKS {
        pace.tick().await;
        other
            .batch_execute("INSERT INTO filler SELECT repeat(md5(g::text), 32) FROM generate_series(1, 4800) g")
            .await
            .unwrap();
        let confirmed = stage.confirmed().await.unwrap();
        looks.push((Instant::now(), stage.postgres.current_wal_lsn().await.unwrap(), confirmed));
    }
    let (_, end, _) = *looks.last().unwrap();
    assert!(u64::from(end) - u64::from(start) >= 200_000_000, "too little was written");
    let mut judged = 0;
    for (at, current, confirmed) in &looks {
        // What was written two intervals ago or earlier must be confirmed by now.
        let earlier = looks.iter().rfind(|(then, ..)| *then + 2 * STATUS_INTERVAL <= *at);
        if let Some((_, written, _)) = earlier {
            judged += 1;
            assert!(confirmed >= written, "{confirmed} confirmed at {current}: {written} is old");
        }
    }
    assert!(judged >= CHUNKS / 4, "only {judged} looks could be judged");
    stage.wait_confirmed(2 * STATUS_INTERVAL).await.unwrap();
}

/// Waits until the writers have committed so many events more.
async fn committed(running: &Running, more: u64) {
    let wanted = running.committed() + more;
    eventually(DEADLINE, "more committed events", async || {
        Ok((running.committed() >= wanted).then_some(()))
    })
    .await
    .unwrap();
}
