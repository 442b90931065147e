//! What flows when nothing breaks, and what must not flow while one part of Kafka stands still.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, UNIX_EPOCH};

use e2e::{Fixture, SHORT_DEADLINE, memory_limit, wait_committed};
use serde_json::Value;
use testbed::checker::Anomalies;
use testbed::kafka::KafkaOptions;
use testbed::load::{Load, Partitioning, PayloadBytes, Preset, Schema, big_transaction};
use testbed::process::peak_data_bytes;
use testbed::truth::Format;
use testbed::wait::eventually;
use tokio::time::{Instant, interval};
use tokio_postgres::types::PgLsn;

const DEADLINE: Duration = Duration::from_secs(90);

const DEFAULT_WINDOW_BYTES: u64 = 32 * 1024 * 1024;

/// Everything written so far is in Kafka once, in order, and confirmed.
async fn expect_exactly_once(fixture: &Fixture) {
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0, "duplicates without any fault");
}

#[tokio::test]
async fn thirty_writers_and_a_transaction_of_200000_rows_arrive_once_and_in_order() {
    let schema = Schema::new(Preset::Default).types(&["order", "invoice", "payment"]);
    let mut fixture = Fixture::builder().schema(schema.aggregates(250)).start().await.unwrap();
    let running =
        fixture.load(Load { writers: 30, think: Duration::from_millis(10), ..Load::default() });
    wait_committed(&running, 500).await.unwrap();
    let session = fixture.session().await.unwrap();
    let big = big_transaction(&session, &fixture.schema, 200_000, 50).await.unwrap();
    assert_eq!(big, 200_000);
    wait_committed(&running, 500).await.unwrap();
    let journal = running.stop().await.unwrap();
    assert_eq!(journal.failures, 0);
    assert!(journal.rolled_back.len() > 20, "too few events were rolled back");
    fixture.note(journal);

    expect_exactly_once(&fixture).await;
    let peak = peak_data_bytes(fixture.router.process().unwrap().pid()).unwrap();
    let limit = memory_limit(DEFAULT_WINDOW_BYTES);
    assert!(peak <= limit, "{peak} B resident, more than {limit} B");
}

#[tokio::test]
async fn a_partitioned_table_is_one_outbox() {
    let schema = Schema::new(Preset::Default).types(&["order", "invoice"]);
    let schema = schema.partitioned(Partitioning::Hash).aggregates(40);
    let mut fixture = Fixture::builder().schema(schema).start().await.unwrap();
    let load = Load { writers: 8, events: Some(1500), ..Load::default() };
    let journal = fixture.load(load).finished().await.unwrap();
    assert_eq!(journal.failures, 0);
    fixture.note(journal);
    expect_exactly_once(&fixture).await;
}

#[tokio::test]
async fn a_debezium_outbox_gives_the_records_of_debeziums_event_router() {
    let schema = Schema::new(Preset::Debezium).types(&["order", "invoice"]);
    let mut fixture =
        Fixture::builder().schema(schema).format(Format::Debezium).start().await.unwrap();
    let load = Load {
        writers: 4,
        payload: PayloadBytes { min: 1, max: 20_000 },
        events: Some(500),
        ..Load::default()
    };
    let journal = fixture.load(load).finished().await.unwrap();
    fixture.note(journal);
    // The checker compares each record with its row: key, value, and header `id` alone.
    expect_exactly_once(&fixture).await;
}

#[tokio::test]
async fn one_leader_without_responses_holds_back_everything_past_the_window() {
    const WINDOW: u64 = 1_000;
    // A transaction of the load, or what commits while a sample is taken.
    const SLACK: u64 = 200;
    let mut fixture = Fixture::builder()
        .own_kafka(KafkaOptions::default().brokers(3))
        .without_topics()
        .set("limits.window_events", WINDOW)
        .prepare()
        .await
        .unwrap();
    let topic = fixture.topics[0].clone();
    fixture.kafka.create_topic_on(&topic, &[1, 2, 3]).await.unwrap();
    fixture.restart().await.unwrap();
    let running = fixture.load(Load { writers: 6, ..Load::default() });
    wait_committed(&running, 500).await.unwrap();
    // The first record of a partition travels alone: one that is never acknowledged would hold
    // everything back by itself.
    eventually(SHORT_DEADLINE, "records in every partition", async || {
        let ends = fixture.end_offsets_of(&topic, &[0, 1, 2]).await?;
        Ok(ends.iter().all(|end| *end > 1).then_some(()))
    })
    .await
    .unwrap();

    fixture.kafka.owned().unwrap().broker(3).unwrap().pause().unwrap();
    let before_pause = running.committed();
    wait_committed(&running, 3 * WINDOW).await.unwrap();
    // On a busy machine the router is behind its writers.
    let is_full = |status: &Value| status["window"]["events"].as_u64() >= Some(WINDOW);
    fixture.router.wait_status("a full window", SHORT_DEADLINE, is_full).await.unwrap();
    let healthy = async || fixture.end_offsets_of(&topic, &[0, 1]).await.unwrap();
    let (held, confirmed) = (healthy().await, fixture.confirmed().await.unwrap());
    let in_kafka = u64::try_from(held.iter().sum::<i64>()).unwrap();
    let limit = before_pause + WINDOW + SLACK;
    assert!(in_kafka <= limit, "{in_kafka} records were delivered past the window of {limit}");
    wait_committed(&running, WINDOW).await.unwrap();
    assert_eq!(
        healthy().await,
        held,
        "records were delivered to the other partitions past the window"
    );
    assert_eq!(fixture.confirmed().await.unwrap(), confirmed);
    let status = fixture.router.wait_state("blocked", SHORT_DEADLINE).await.unwrap();
    let window = status["window"]["events"].as_u64().unwrap();
    assert!((WINDOW..=WINDOW + SLACK).contains(&window), "{window} events in the window");
    assert_eq!(status["blame"], "kafka", "{status}");

    fixture.kafka.owned().unwrap().broker(3).unwrap().resume().unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    let duplicates = u64::try_from(result.duplicates).unwrap();
    assert!(duplicates <= WINDOW + SLACK, "{duplicates} duplicates");
    let peak = peak_data_bytes(fixture.router.process().unwrap().pid()).unwrap();
    let limit = memory_limit(DEFAULT_WINDOW_BYTES);
    assert!(peak <= limit, "{peak} B resident, more than {limit} B");
}

#[tokio::test]
async fn a_topic_that_grows_under_load_keeps_the_order_of_every_key() {
    let mut fixture = Fixture::builder().without_topics().prepare().await.unwrap();
    let topic = fixture.topics[0].clone();
    // The broker's own clock says when each record arrived.
    let clock = [("message.timestamp.type", "LogAppendTime")];
    fixture.kafka.create_topic(&topic, 2, &clock).await.unwrap();
    fixture.restart().await.unwrap();
    let load = Load { writers: 6, think: Duration::from_millis(40), ..Load::default() };
    let running = fixture.load(load);
    wait_committed(&running, 300).await.unwrap();
    fixture.kafka.grow_topic(&topic, 5).await.unwrap();
    // The router refreshes the topics that it uses every 30 s.
    eventually(DEADLINE, "records in a new partition", async || {
        let ends = fixture.kafka.end_offsets(&topic).await?;
        Ok(ends.iter().skip(2).any(|end| *end > 0).then_some(()))
    })
    .await
    .unwrap();
    wait_committed(&running, 300).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();

    // For the checker a key in two partitions is an anomaly. Here each key may have moved once, and
    // only after every record produced before had arrived.
    let moved = count_moved_keys(&fixture).await;
    assert!(moved > 10, "only {moved} keys moved");
    let mut result = fixture.check().await.unwrap();
    assert_eq!((result.affinity.count(), result.duplicates), (moved, 0));
    result.affinity = Anomalies::default();
    result.clean().unwrap();
}

/// Of one key: number and time of arrival of its records, by partition.
type Arrivals = BTreeMap<i32, Vec<(i64, i64)>>;

/// How many keys are in an old and a new partition; everything in the old one precedes everything
/// in the new one by commit order and by the broker's clock.
async fn count_moved_keys(fixture: &Fixture) -> usize {
    let truth = fixture.truth().await.unwrap();
    let numbers: HashMap<String, i64> =
        truth.events.iter().map(|event| (event.id.to_string(), event.seq)).collect();
    let mut keys: BTreeMap<Vec<u8>, Arrivals> = BTreeMap::new();
    for record in fixture.seen().await.unwrap() {
        let number = numbers.get(record.header("id").unwrap()).unwrap();
        let arrived = (*number, record.timestamp.unwrap());
        let partitions = keys.entry(record.key.unwrap()).or_default();
        partitions.entry(record.partition).or_default().push(arrived);
    }
    let mut moved = 0;
    for (key, partitions) in keys.iter().filter(|(_, partitions)| partitions.len() > 1) {
        moved += 1;
        let key = String::from_utf8_lossy(key);
        let parts: Vec<i32> = partitions.keys().copied().collect();
        // From the 0 to 1 of before to the 0 to 4 of now.
        let [a, b] = parts[..] else { panic!("key {key} is in partitions {parts:?}") };
        let first = |part| partitions.get(&part).unwrap().iter().min().unwrap();
        let last = |part| partitions.get(&part).unwrap().iter().max().unwrap();
        let (old, new) = if first(a) < first(b) { (a, b) } else { (b, a) };
        assert!(
            old < 2,
            "key {key} has its first records in partition {old}, which did not exist then"
        );
        assert!(
            last(old).0 < first(new).0,
            "records of key {key} alternate between partitions {old} and {new}"
        );
        assert!(
            last(old).1 <= first(new).1,
            "a record of key {key} reached partition {new} before the last one reached {old}"
        );
    }
    moved
}

/// As after an outage that was longer than the topic keeps records: the row may be removed from its
/// table as soon as the record is acknowledged.
#[tokio::test]
async fn a_record_that_its_topic_would_delete_at_once_carries_the_time_of_sending() {
    let builder = Fixture::builder().set_outbox("timestamp", "column");
    let mut fixture = builder.prepare().await.unwrap();
    let topic = fixture.topics.first().unwrap();
    fixture.kafka.set_topic(topic, &[("retention.ms", "604800000")]).await.unwrap();
    let session = fixture.session().await.unwrap();
    let row = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, created_at) \
         SELECT 'order', 'key', 'Made', now() - n * interval '4 days' FROM generate_series(1, 2) n";
    session.batch_execute(row).await.unwrap();
    let begun = i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    fixture.restart().await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let seen = fixture.seen().await.unwrap();
    let late: Vec<bool> = seen.iter().map(|record| record.timestamp.unwrap() >= begun).collect();
    assert_eq!(late, [false, true], "{seen:?}");
    assert!(fixture.router.log().contains("carry the time of sending"));
}

/// How often the router sends a status update: a third of its `wal_sender_timeout`.
const STATUS_INTERVAL: Duration = Duration::from_millis(3_334);

#[tokio::test]
async fn an_idle_outbox_retains_no_wal_while_another_database_writes() {
    const CHUNKS: usize = 40;
    let mut fixture = Fixture::builder().start().await.unwrap();
    fixture.session().await.unwrap().batch_execute("CREATE DATABASE other").await.unwrap();
    let other = fixture.postgres.connect_to("other").await.unwrap();
    other.batch_execute("CREATE TABLE filler (text text)").await.unwrap();
    let start = fixture.postgres.current_wal_lsn().await.unwrap();

    // 200 MB over more than three status intervals; both positions are sampled after each chunk.
    let mut samples: Vec<(Instant, PgLsn, PgLsn)> = Vec::new();
    let mut pace = interval(3 * STATUS_INTERVAL / u32::try_from(CHUNKS).unwrap());
    for _ in 0..CHUNKS {
        pace.tick().await;
        other
            .batch_execute("INSERT INTO filler SELECT repeat(md5(g::text), 32) FROM generate_series(1, 4800) g")
            .await
            .unwrap();
        let confirmed = fixture.confirmed().await.unwrap();
        samples.push((
            Instant::now(),
            fixture.postgres.current_wal_lsn().await.unwrap(),
            confirmed,
        ));
    }
    let (_, end, _) = *samples.last().unwrap();
    assert!(u64::from(end) - u64::from(start) >= 200_000_000, "too little was written");
    let mut judged = 0;
    for (at, current, confirmed) in &samples {
        // What was written two intervals ago or earlier must be confirmed by now.
        let earlier = samples.iter().rfind(|(then, ..)| *then + 2 * STATUS_INTERVAL <= *at);
        if let Some((_, written, _)) = earlier {
            judged += 1;
            assert!(
                confirmed >= written,
                "{confirmed} is confirmed and WAL ends at {current}: {written} should be confirmed by now"
            );
        }
    }
    assert!(judged >= CHUNKS / 4, "only {judged} samples could be compared");
    fixture.wait_confirmed(2 * STATUS_INTERVAL).await.unwrap();
    fixture
        .router
        .wait_status("hardly any bytes behind", SHORT_DEADLINE, |status| {
            status["slot"]["bytes_behind"].as_u64().is_some_and(|behind| behind < 100_000)
        })
        .await
        .unwrap();
}
