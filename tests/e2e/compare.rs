//! `compare`: what a slot holds against what is in Kafka, with the slot left where it is.
//!
//! `OUTBOX_COMPARE_EVENTS` says how many events are compared with planted differences; the default
//! run takes few.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;
use testbed::load::Backlog;
use testbed::reader::{ConsumedRecord, read_all};

/// The slot that is compared; the router streams from its own.
const COMPARED: &str = "compared";

fn events() -> u64 {
    let set = std::env::var("OUTBOX_COMPARE_EVENTS").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(4_000)
}

async fn create_slot(fixture: &Fixture) {
    let session = fixture.session().await.unwrap();
    let slot = format!("SELECT pg_create_logical_replication_slot('{COMPARED}', 'pgoutput')");
    session.batch_execute(&slot).await.unwrap();
}

/// A router that has sent a backlog, and a slot that still holds it.
async fn sent(events: u64) -> Fixture {
    let fixture = Fixture::builder().start().await.unwrap();
    create_slot(&fixture).await;
    let session = fixture.session().await.unwrap();
    let size = Backlog {
        transactions: events / 10,
        rows_per_transaction: 10,
        payload_bytes: 40,
        first: 0,
    };
    testbed::load::backlog(&session, &fixture.schema, size).await.unwrap();
    let deadline = SHORT_DEADLINE + Duration::from_millis(events);
    fixture.wait_confirmed(deadline).await.unwrap();
    fixture
}

/// What a comparison takes at most, however many events there are: two million ids and keys that it
/// remembers (210 MB), 64 MiB of events and of records that wait for each other, and what
/// librdkafka has fetched ahead.
const MEMORY_MAX: u64 = 450_000_000;

/// What `compare` did.
struct Compared {
    exit: Option<i32>,
    /// Its JSON; null where it printed none.
    found: Value,
    errors: String,
    /// Bytes of resident memory at most.
    peak_memory: u64,
}

async fn run(fixture: &Fixture, arguments: &[&str]) -> Compared {
    let slot = format!("postgres.slot={COMPARED}");
    let mut command = vec!["compare", "--json", "--set", &slot];
    if !arguments.contains(&"--wait") {
        command.extend(["--wait", "20s"]);
    }
    command.extend(arguments);
    let (output, peak_memory) = fixture.router.command_with_peak_memory(&command).await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let found = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    Compared { exit: output.status.code(), found, errors, peak_memory }
}

/// Runs a `compare` that ends with an answer, and returns its exit code and JSON.
#[expect(clippy::print_stdout, reason = "the figure of a large run is read by a person")]
async fn compare(fixture: &Fixture, arguments: &[&str]) -> (Option<i32>, Value) {
    let Compared { exit, found, errors, peak_memory } = run(fixture, arguments).await;
    assert!(found.is_object(), "{errors}");
    let events = found.get("events");
    println!("compare: {events:?} events, {} MB of memory at most", peak_memory / 1_000_000);
    assert!(peak_memory <= MEMORY_MAX, "{peak_memory} bytes of memory");
    (exit, found)
}

/// Inserts an event of the fixture's aggregate type.
async fn insert(fixture: &Fixture, table: &str, payload_bytes: i32, headers: Option<&str>) {
    let session = fixture.session().await.unwrap();
    let sql = format!(
        "INSERT INTO {table} (aggregate_type, aggregate_id, event_type, payload, headers) \
         VALUES ($1, 'a', 'Made', jsonb_build_object('pad', repeat('x', $2)), $3::text::jsonb)"
    );
    let aggregate_type = fixture.schema.types.first().unwrap();
    session.execute(&sql, &[aggregate_type, &payload_bytes, &headers]).await.unwrap();
}

fn counts(found: &Value) -> BTreeMap<String, u64> {
    let findings = found["findings"].as_array().unwrap();
    let one = |finding: &Value| {
        (finding["kind"].as_str().unwrap().to_owned(), finding["count"].as_u64().unwrap())
    };
    findings.iter().map(one).collect()
}

#[tokio::test]
async fn what_a_connector_wrote_alike_is_the_same_and_its_slot_stays() {
    let fixture = sent(4_000).await;
    let before = fixture.postgres.slot(COMPARED).await.unwrap().unwrap();
    let (exit, found) = compare(&fixture, &[]).await;
    assert_eq!(counts(&found), BTreeMap::new(), "{found:#}");
    assert_eq!((exit, found["same"].as_u64()), (Some(0), Some(4_000)), "{found:#}");
    let after = fixture.postgres.slot(COMPARED).await.unwrap().unwrap();
    assert_eq!(after.confirmed_flush_lsn, before.confirmed_flush_lsn);
    let session = fixture.session().await.unwrap();
    let slots = session.query("SELECT slot_name FROM pg_replication_slots", &[]).await.unwrap();
    assert_eq!(slots.len(), 2, "the copy is dropped");
}

#[tokio::test]
async fn events_that_come_while_it_runs_are_followed() {
    let fixture = sent(10).await;
    let session = fixture.session().await.unwrap();
    let writes = async {
        for first in 1.. {
            let size = Backlog {
                transactions: 1,
                rows_per_transaction: 10,
                payload_bytes: 40,
                first: first * 10,
            };
            testbed::load::backlog(&session, &fixture.schema, size).await.unwrap();
        }
    };
    let (exit, found) = tokio::select! {
        compared = compare(&fixture, &["--records", "500"]) => compared,
        () = writes => panic!("the writer does not end"),
    };
    assert_eq!(counts(&found), BTreeMap::new(), "{found:#}");
    assert_eq!((exit, found["same"].as_u64()), (Some(0), Some(500)), "{found:#}");
}

#[tokio::test]
async fn nothing_to_compare_is_no_success() {
    let fixture = Fixture::builder().start().await.unwrap();
    create_slot(&fixture).await;
    let (exit, found) = compare(&fixture, &[]).await;
    assert_eq!((exit, found["events"].as_u64()), (Some(1), Some(0)), "{found:#}");
}

#[tokio::test]
async fn the_events_of_a_missing_topic_are_missing_whatever_partition_they_name() {
    let missing = format!("{}-missing", e2e::SLOT);
    let fixture = Fixture::builder()
        .set_outbox("topic", missing.as_str())
        .set_outbox("columns.partition", "shard")
        .prepare()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute("ALTER TABLE outbox ADD COLUMN shard int DEFAULT 5").await.unwrap();
    create_slot(&fixture).await;
    insert(&fixture, "outbox", 10, None).await;
    let (exit, found) = compare(&fixture, &["--wait", "1s"]).await;
    assert_eq!((exit, counts(&found)), (Some(1), [("missing".into(), 1)].into()), "{found:#}");
    let at = found.pointer("/findings/0/examples/0/at").unwrap();
    assert_eq!(at, &Value::from(format!("{missing}-?")));
}

#[tokio::test]
async fn a_topic_that_is_named_is_read_from_the_first_event_on() {
    let fixture = sent(10).await;
    let topic = fixture.topics[0].as_str();
    let arguments = ["--lookback", "1ms", "--wait", "2s", "--topic"];
    let (exit, found) = compare(&fixture, &[arguments.as_slice(), &[topic]].concat()).await;
    assert_eq!(counts(&found), BTreeMap::new(), "{found:#}");
    assert_eq!((exit, found["same"].as_u64()), (Some(0), Some(10)), "{found:#}");
    let Compared { exit, errors, .. } =
        run(&fixture, &[arguments.as_slice(), &["no-such-topic"]].concat()).await;
    assert_eq!(exit, Some(1), "{errors}");
    assert!(errors.contains("K010") && errors.contains("no-such-topic"), "{errors}");
}

#[tokio::test]
async fn tables_may_name_the_header_of_the_id_differently() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let publication = e2e::PUBLICATION;
    let table = format!(
        "CREATE TABLE second (LIKE outbox INCLUDING ALL); \
         ALTER PUBLICATION {publication} ADD TABLE second"
    );
    session.batch_execute(&table).await.unwrap();
    create_slot(&fixture).await;
    let second = format!(
        "[[outbox]]\ntable = 'public.second'\npreset = 'default'\ntopic = '{}'\n\
         headers.id = 'event-id'",
        fixture.topics[0]
    );
    fixture.router.set_config(&format!("{}\n{second}\n", fixture.config)).unwrap();
    fixture.restart().await.unwrap();
    for table in ["outbox", "second", "outbox", "second"] {
        insert(&fixture, table, 10, None).await;
    }
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let (exit, found) = compare(&fixture, &[]).await;
    assert_eq!(counts(&found), BTreeMap::new(), "{found:#}");
    assert_eq!((exit, found["same"].as_u64()), (Some(0), Some(4)), "{found:#}");
}

#[tokio::test]
async fn rows_from_before_the_time_that_was_given_are_no_findings() {
    let fixture = Fixture::builder().prepare().await.unwrap();
    create_slot(&fixture).await;
    insert(&fixture, "outbox", 10, Some("[]")).await;
    let session = fixture.session().await.unwrap();
    let now = session.query_one("SELECT clock_timestamp()::text", &[]).await.unwrap();
    let now: String = now.get(0);
    insert(&fixture, "outbox", 10, None).await;
    let (exit, found) = compare(&fixture, &["--wait", "1s", "--since", &now]).await;
    assert_eq!((exit, counts(&found)), (Some(1), [("missing".into(), 1)].into()), "{found:#}");
}

#[tokio::test]
async fn a_record_that_is_too_large_for_its_topic_is_refused_as_run_refuses_it() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let small = format!("small-{}", fixture.topics[0]);
    let limit = [("max.message.bytes", "1000")];
    testbed::kafka::create_topic(&fixture.kafka.bootstrap(), &small, 3, &limit).await.unwrap();
    fixture.config.set_outbox("topic", small);
    fixture.rewrite_config().unwrap();
    create_slot(&fixture).await;
    insert(&fixture, "outbox", 10, None).await;
    insert(&fixture, "outbox", 2_000, None).await;
    let (exit, found) = compare(&fixture, &["--wait", "1s"]).await;
    let wanted = [("missing".into(), 1), ("refused".into(), 1)].into();
    assert_eq!((exit, counts(&found)), (Some(1), wanted), "{found:#}");
}

#[tokio::test]
async fn every_planted_difference_is_found_and_none_is_invented() {
    let events = events();
    let mut fixture = sent(events).await;
    let bootstrap = fixture.kafka.bootstrap();
    let [topic] = fixture.topics.as_slice() else { panic!("{:?}", fixture.topics) };
    let mut records = read_all(&bootstrap, &[topic]).await.unwrap();
    // In the order in which they were committed, as a connector writes them.
    records.sort_by_key(number);
    let altered = format!("altered-{topic}");
    testbed::kafka::create_topic(&bootstrap, &altered, 3, &[]).await.unwrap();
    let planted = tokio::task::spawn_blocking({
        let (bootstrap, altered) = (bootstrap.clone(), altered.clone());
        move || write_altered(&bootstrap, &altered, records)
    });
    let planted = planted.await.unwrap();
    fixture.config.set_outbox("topic", altered);
    fixture.rewrite_config().unwrap();
    let (exit, found) = compare(&fixture, &[]).await;
    assert_eq!(counts(&found), planted, "{found:#}");
    assert_eq!((exit, found["events"].as_u64()), (Some(1), Some(events)), "{found:#}");
}

/// The event's number, which is part of its payload.
fn number(record: &ConsumedRecord) -> Option<u64> {
    let payload: Value = serde_json::from_slice(record.value.as_deref()?).ok()?;
    payload.get("seq")?.as_u64()
}

/// Writes the records to another topic with the same partitions, some of them altered, and returns
/// what must be found.
fn write_altered(
    bootstrap: &str,
    topic: &str,
    records: Vec<ConsumedRecord>,
) -> BTreeMap<String, u64> {
    let mut planted: BTreeMap<String, u64> = BTreeMap::new();
    let mut plant = |kind: &str| *planted.entry(kind.to_owned()).or_default() += 1;
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .set("linger.ms", "20")
        .create()
        .unwrap();
    let mut records = VecDeque::from(records);
    let mut at = 0;
    while let Some(mut record) = records.pop_front() {
        at += 1;
        match at % 89 {
            1 => {
                plant("missing");
                continue;
            }
            2 => {
                send(&producer, topic, &record);
                plant("duplicate");
            }
            3 => {
                // The next one of its key goes first.
                let is_next = |other: &ConsumedRecord| {
                    other.key == record.key && other.partition == record.partition
                };
                if let Some(next) = records.iter().take(2_000).position(is_next) {
                    let first = records.remove(next).unwrap();
                    send(&producer, topic, &first);
                    plant("order");
                }
            }
            4 => {
                record.value = record.value.map(|value| [value.as_slice(), b" "].concat());
                plant("value");
            }
            5 => {
                record.value = None;
                plant("value");
            }
            6 => {
                record.headers.reverse();
                plant("headers");
            }
            7 => {
                record.headers.push(("more".to_owned(), None));
                plant("headers");
            }
            8 => {
                record.key = Some(b"another".to_vec());
                plant("key");
            }
            9 => {
                record.partition = (record.partition + 1) % 3;
                plant("partition");
            }
            10 => {
                let mut foreign = record.clone();
                let id = foreign.headers.first_mut().unwrap();
                id.1 = Some(format!("foreign-{at}").into_bytes());
                send(&producer, topic, &foreign);
                plant("additional");
            }
            _ => {}
        }
        send(&producer, topic, &record);
    }
    producer.flush(Duration::from_secs(60)).unwrap();
    planted
}

fn send(producer: &BaseProducer, topic: &str, record: &ConsumedRecord) {
    let mut headers = OwnedHeaders::new();
    for (key, value) in &record.headers {
        headers = headers.insert(Header { key, value: value.as_deref() });
    }
    let mut next = BaseRecord::<[u8], [u8]>::to(topic)
        .partition(record.partition)
        .headers(headers)
        .timestamp(record.timestamp.unwrap());
    if let Some(key) = &record.key {
        next = next.key(key);
    }
    if let Some(value) = &record.value {
        next = next.payload(value);
    }
    loop {
        match producer.send(next) {
            Ok(()) => break,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                producer.poll(Duration::from_millis(50));
                next = again;
            }
            Err((error, _)) => panic!("{error}"),
        }
    }
    producer.poll(Duration::ZERO);
}
