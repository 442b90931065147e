//! Differences that are planted in Kafka, of which each must be found.
//!
//! `OUTBOX_COMPARE_EVENTS` says how many events are compared; the default run takes few.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use e2e::Fixture;
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;
use testbed::reader::{ConsumedRecord, read_all};

use super::{compare, counts, create_slot};

fn events() -> u64 {
    let set = std::env::var("OUTBOX_COMPARE_EVENTS").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(4_000)
}

/// A router that has sent a backlog whose records have the times of a column, an hour before those
/// of their commits; and a slot that still holds it.
async fn sent_with_times(events: u64) -> Fixture {
    let mut fixture = Fixture::builder()
        .set_outbox("timestamp", "column")
        .set_outbox("columns.timestamp", "due")
        .prepare()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    let due = "ALTER TABLE outbox ADD COLUMN due timestamptz DEFAULT now() - interval '1 hour'";
    session.batch_execute(due).await.unwrap();
    create_slot(&fixture).await;
    fixture.restart().await.unwrap();
    super::send(&fixture, events).await;
    fixture
}

#[tokio::test]
async fn every_planted_difference_is_found_and_none_is_invented() {
    let events = events();
    let mut fixture = sent_with_times(events).await;
    let bootstrap = fixture.kafka.bootstrap();
    let [topic] = fixture.topics.as_slice() else { panic!("{:?}", fixture.topics) };
    let mut records = read_all(&bootstrap, &[topic]).await.unwrap();
    // In the order in which they were committed, as a connector writes them.
    records.sort_by_key(number);
    let named = |what: &str| format!("{what}-{topic}");
    let topics = Topics {
        expected: named("altered"),
        elsewhere: named("elsewhere"),
        unread: named("unread"),
    };
    for topic in [&topics.expected, &topics.elsewhere, &topics.unread] {
        testbed::kafka::create_topic(&bootstrap, topic, 3, &[]).await.unwrap();
    }
    let planted = tokio::task::spawn_blocking({
        let topics = topics.clone();
        move || write_altered(&bootstrap, &topics, records)
    });
    let planted = planted.await.unwrap();
    fixture.config.set_outbox("topic", topics.expected);
    fixture.rewrite_config().unwrap();
    let (exit, found) = compare(&fixture, &["--topic", &topics.elsewhere]).await;
    assert_eq!(counts(&found), planted, "{found:#}");
    assert_eq!((exit, found["events"].as_u64()), (Some(1), Some(events)), "{found:#}");
}

/// The event's number, which is part of its payload.
fn number(record: &ConsumedRecord) -> Option<u64> {
    let payload: Value = serde_json::from_slice(record.value.as_deref()?).ok()?;
    payload.get("seq")?.as_u64()
}

/// Where the records are written.
#[derive(Debug, Clone)]
struct Topics {
    /// The topic to which the router would write.
    expected: String,
    /// Another one that `compare` is told to read.
    elsewhere: String,
    /// One that it does not read, so a record there is not found.
    unread: String,
}

/// Writes the records to other topics with the same partitions, some of them altered, and returns
/// what must be found.
fn write_altered(
    bootstrap: &str,
    topics: &Topics,
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
        let mut topic = &topics.expected;
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
                let mut foreign = record.clone();
                let id = foreign.headers.first_mut().unwrap();
                id.1 = Some(format!("foreign-{at}").into_bytes());
                send(&producer, topic, &foreign);
                plant("additional");
            }
            5 => {
                topic = &topics.elsewhere;
                plant("topic");
            }
            6 => {
                topic = &topics.unread;
                plant("missing");
            }
            other => {
                if let Some(kind) = alter(&mut record, other) {
                    plant(kind);
                }
            }
        }
        send(&producer, topic, &record);
    }
    producer.flush(Duration::from_secs(60)).unwrap();
    planted
}

/// Alters one part of a record, and returns which.
fn alter(record: &mut ConsumedRecord, how: u64) -> Option<&'static str> {
    Some(match how {
        7 => {
            let value = record.value.take().unwrap_or_default();
            record.value = Some([value.as_slice(), b" "].concat());
            "value"
        }
        8 => {
            record.value = None;
            "value"
        }
        9 => {
            record.headers.reverse();
            "headers"
        }
        10 => {
            record.headers.push(("more".to_owned(), None));
            "headers"
        }
        11 => {
            record.key = Some(b"another".to_vec());
            "key"
        }
        12 => {
            record.partition = (record.partition + 1) % 3;
            "partition"
        }
        13 => {
            record.timestamp = record.timestamp.map(|millis| millis + 1);
            "timestamp"
        }
        _ => return None,
    })
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
