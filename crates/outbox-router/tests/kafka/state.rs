//! The state topic on a real broker: made, checked, written, read.

use outbox_router::codes::hint;
use std::time::Duration;

use outbox_router::kafka::{
    KafkaSettings, StateLog, TopicCreation, command_state_topic, open, put_state,
};
use relay::{Code, Failure};
use testbed::kafka::{KafkaCluster, KafkaOptions};
use testbed::wait::eventually;
use tokio::time::timeout;

use crate::broker::{DEADLINE, blocking, settings, shared, topic_name, topic_names, topic_setting};

/// What [`StateTopic::open`] says to a topic.
async fn open_state(settings: &KafkaSettings, topic: &str) -> Result<Vec<Failure>, Failure> {
    let (settings, topic) = (settings.clone(), topic_name(topic));
    blocking(move || {
        let sink = open(&settings).unwrap();
        sink.state_topic(&settings, topic).open()
    })
    .await
}

pub(crate) async fn put(settings: &KafkaSettings, topic: &str, records: &[(&str, Option<&str>)]) {
    let (settings, topic) = (settings.clone(), topic_name(topic));
    let bytes = |text: &str| text.as_bytes().to_vec();
    let records: Vec<_> =
        records.iter().map(|(key, value)| (bytes(key), value.map(bytes))).collect();
    blocking(move || put_state(&settings, &topic, &records)).await.unwrap();
}

pub(crate) async fn read(settings: &KafkaSettings, topic: &str, prefix: &'static str) -> StateLog {
    let (settings, topic) = (settings.clone(), topic_name(topic));
    blocking(move || command_state_topic(&settings, &topic)?.read(prefix.as_bytes())).await.unwrap()
}

pub(crate) fn pairs(read: &StateLog) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    read.records.iter().map(|record| (text(&record.key), text(&record.value))).collect()
}

#[tokio::test]
async fn a_missing_state_topic_is_created_with_compaction() {
    let kafka = shared().await;
    open_state(&settings(&kafka), "made.state").await.unwrap();
    assert_eq!(kafka.end_offsets("made.state").await.unwrap(), [0]);
    for (setting, expected) in [
        ("cleanup.policy", "compact"),
        ("segment.bytes", "4194304"),
        ("segment.ms", "600000"),
        ("min.cleanable.dirty.ratio", "0.1"),
    ] {
        assert_eq!(topic_setting(&kafka, "made.state", setting).await, expected, "{setting}");
    }
    open_state(&settings(&kafka), "made.state").await.unwrap();
    let read = read(&settings(&kafka), "made.state", "").await;
    assert_eq!((read.end, read.records), (0, vec![]));
    assert_eq!(read.cluster_id.len(), 22, "a random id in base64: {}", read.cluster_id);
}

#[tokio::test]
async fn a_state_topic_that_the_cluster_cannot_create_is_missing() {
    let kafka = shared().await;
    let create = TopicCreation { partitions: 6, replication_factor: 3 };
    let settings = KafkaSettings { create_topics: Some(create), ..settings(&kafka) };
    let failure = open_state(&settings, "too.many.replicas").await.unwrap_err();
    assert_eq!(failure.code, Code::TopicMissing, "{failure}");
    let remedy = hint(&failure).unwrap();
    assert!(remedy.contains("--partitions 1 --replication-factor 1 --config cleanup"), "{remedy}");
}

#[tokio::test]
async fn a_topic_that_would_lose_state_is_refused_with_the_remedy() {
    let kafka = shared().await;
    let settings = settings(&kafka);
    for (topic, partitions, configs, expected) in [
        ("two.partitions", 2, &[("cleanup.policy", "compact")][..], "--delete --topic two"),
        ("deleting", 1, &[("cleanup.policy", "delete")], "cleanup.policy=compact"),
        ("both", 1, &[("cleanup.policy", "compact,delete")], "cleanup.policy=compact"),
        (
            "narrow",
            1,
            &[("cleanup.policy", "compact"), ("max.message.bytes", "1000")],
            "max.message.bytes=65536",
        ),
    ] {
        kafka.create_topic(topic, partitions, configs).await.unwrap();
        let failure = open_state(&settings, topic).await.unwrap_err();
        assert_eq!(failure.code, Code::StateTopicUnsuitable, "{failure}");
        assert!(failure.message.contains(topic), "{failure}");
        let remedy = hint(&failure).unwrap();
        assert!(remedy.contains(expected), "{remedy}");
    }
    kafka.create_topic("fit", 1, &[("cleanup.policy", "compact")]).await.unwrap();
    assert_eq!(open_state(&settings, "fit").await.unwrap(), []);
}

/// It is fit for a pipeline of a few tables, and nobody knows of how many this one is.
#[tokio::test]
async fn a_topic_that_may_refuse_a_large_record_or_every_record_is_reported_before_it_does() {
    let kafka = shared().await;
    let settings = settings(&kafka);
    for (topic, setting, expected) in [
        ("small", ("max.message.bytes", "100000"), "max.message.bytes=1048588"),
        ("never", ("min.insync.replicas", "2"), "min.insync.replicas=1"),
    ] {
        let configs = [("cleanup.policy", "compact"), setting];
        kafka.create_topic(topic, 1, &configs).await.unwrap();
        let cautions = open_state(&settings, topic).await.unwrap();
        let hints: Vec<_> = cautions.iter().filter_map(hint).collect();
        assert!(hints.len() == 1 && hints[0].ends_with(expected), "{cautions:?}");
    }
}

/// As of a publication FOR ALL TABLES.
#[tokio::test]
async fn a_record_that_is_too_large_for_the_state_topic_is_reported_as_such() {
    let kafka = shared().await;
    let settings = settings(&kafka);
    let topic = "tight.state";
    let configs = [("cleanup.policy", "compact"), ("max.message.bytes", "70000")];
    kafka.create_topic(topic, 1, &configs).await.unwrap();
    let record = vec![b'x'; 200_000];
    let (own, name, value) = (settings.clone(), topic_name(topic), record.clone());
    let by_command =
        blocking(move || put_state(&own, &name, &[(b"a".to_vec(), Some(value))])).await;

    let mut sink = open(&settings).unwrap();
    sink.bind_state(&topic_name(topic));
    sink.write_state(b"a", Some(&record), 1).unwrap();
    let by_router = loop {
        if let Some(trouble) = sink.poll_acks(&mut relay::Acks::default(), 1_000) {
            break trouble.failure;
        }
        timeout(DEADLINE, sink.wait_acks()).await.expect("in time");
    };
    blocking(move || sink.close()).await;
    for failure in [by_command.unwrap_err(), by_router] {
        assert_eq!(failure.code, Code::RecordTooLarge, "{failure}");
        assert!(failure.message.contains("the state topic tight.state"), "{failure}");
        let remedy = hint(&failure).unwrap();
        assert!(
            remedy.contains("--entity-name tight.state --add-config max.message.bytes="),
            "{remedy}"
        );
        assert!(remedy.contains("FOR ALL TABLES"), "{remedy}");
    }
}

#[tokio::test]
async fn the_latest_record_of_each_key_is_read_whichever_process_wrote_it() {
    let kafka = shared().await;
    let settings = settings(&kafka);
    let topic = "latest.state";
    put(
        &settings,
        topic,
        &[
            ("shop/a", Some("1")),
            ("shop/b", Some("2")),
            ("bank/a", Some("3")),
            ("shop/a", Some("4")),
        ],
    )
    .await;
    put(&settings, topic, &[("shop/b", None), ("bank/b", None), ("shop/c", Some(""))]).await;

    let shop = read(&settings, topic, "shop/").await;
    assert_eq!(shop.end, 7);
    assert_eq!(pairs(&shop), [("shop/a".into(), "4".into()), ("shop/c".into(), String::new())]);
    assert_eq!(pairs(&read(&settings, topic, "bank/").await), [("bank/a".into(), "3".into())]);
    assert_eq!(read(&settings, topic, "").await.records.len(), 3);
    assert_eq!(read(&settings, topic, "s").await.cluster_id, shop.cluster_id);
}

/// `end` says whether anybody wrote, through the client of the sink.
#[tokio::test]
async fn the_end_moves_with_every_record() {
    let kafka = shared().await;
    let settings = settings(&kafka);
    let topic = "ends.state";
    put(&settings, topic, &[("a", Some("1"))]).await;
    let (own, name) = (settings.clone(), topic_name(topic));
    let sink = open(&own).unwrap();
    let state = sink.state_topic(&own, name);
    let ask = state.clone();
    assert_eq!(blocking(move || ask.extent()).await.unwrap().end, 1);
    put(&settings, topic, &[("a", None)]).await;
    assert_eq!(blocking(move || state.extent()).await.unwrap().end, 2);
    blocking(move || sink.close()).await;
}

/// Transactions are nobody's business here; but one that stays open must not hide what comes after
/// it.
#[tokio::test]
async fn an_open_transaction_of_another_producer_hides_nothing() {
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
    let kafka = shared().await;
    let settings = settings(&kafka);
    let topic = "open.state";
    put(&settings, topic, &[("a", Some("1"))]).await;
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", kafka.bootstrap()).set("transactional.id", "somebody");
    let producer: BaseProducer = config.create().unwrap();
    let producer = blocking(move || {
        producer.init_transactions(DEADLINE).unwrap();
        producer.begin_transaction().unwrap();
        producer.send(BaseRecord::to(topic).partition(0).key("x").payload("y")).unwrap();
        producer.flush(DEADLINE).unwrap();
        producer
    })
    .await;
    put(&settings, topic, &[("a", Some("2"))]).await;

    let (own, name) = (settings.clone(), topic_name(topic));
    let sink = open(&own).unwrap();
    let state = sink.state_topic(&own, name);
    let ask = state.clone();
    assert_eq!(blocking(move || ask.extent()).await.unwrap().end, 3);
    let seen = read(&settings, topic, "a").await;
    assert_eq!((seen.end, pairs(&seen)), (3, vec![("a".into(), "2".into())]));

    // The end of a transaction is an offset without a record.
    blocking(move || producer.abort_transaction(DEADLINE)).await.unwrap();
    eventually(DEADLINE, "the marker of the transaction's end", async || {
        let after = read(&settings, topic, "a").await;
        assert_eq!(after.records, seen.records);
        Ok((after.end == 4).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn reading_creates_no_topic() {
    let kafka =
        KafkaCluster::start(KafkaOptions::default().set("auto.create.topics.enable", "true")).await;
    let kafka = kafka.unwrap();
    let settings = settings(&kafka);
    let (own, name) = (settings.clone(), topic_name("nobody.made"));
    let failure = blocking(move || command_state_topic(&own, &name)?.read(b"")).await.unwrap_err();
    assert_eq!(failure.code, Code::TopicMissing, "{failure}");
    assert!(hint(&failure).unwrap().contains("--create --topic nobody.made --partitions 1"));
    let names = topic_names(&kafka).await;
    assert!(!names.iter().any(|name| name == "nobody.made"), "the question made it: {names:?}");
}

/// Ten thousand records of two thousand keys, of which compaction may take some away meanwhile.
#[tokio::test]
async fn ten_thousand_records_are_read_whole() {
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
    let kafka = shared().await;
    let settings = settings(&kafka);
    let topic = "large.state";
    open_state(&settings, topic).await.unwrap();
    let mut config = rdkafka::ClientConfig::new();
    let producer: BaseProducer =
        config.set("bootstrap.servers", kafka.bootstrap()).create().unwrap();
    for n in 0..10_000 {
        let (key, value) = (format!("p/{}", n % 2_000), format!("{n:0800}"));
        producer.send(BaseRecord::to(topic).partition(0).key(&key).payload(&value)).unwrap();
    }
    blocking(move || producer.flush(DEADLINE)).await.unwrap();

    let found = read(&settings, topic, "p/").await;
    assert_eq!(found.end, 10_000);
    assert_eq!(found.records.len(), 2_000);
    for (key, value) in pairs(&found) {
        let (key, value) = (key[2..].parse::<u32>().unwrap(), value.parse::<u32>().unwrap());
        assert_eq!(value, 8_000 + key);
    }
}

/// Offsets are missing then; what is left is read to the end.
#[tokio::test]
async fn a_topic_whose_first_records_were_compacted_away_is_read_to_its_end() {
    let topic = "shrinking.state";
    let kafka = with_quickly_compacted(topic).await;
    let settings = settings(&kafka);
    put(&settings, topic, &[("a", Some("1")), ("b", Some("1")), ("a", None)]).await;
    // A segment is closed by the first record that comes when it is old enough.
    eventually(DEADLINE, "compaction of the first records", async || {
        put(&settings, topic, &[("b", None)]).await;
        tokio::time::sleep(Duration::from_millis(150)).await;
        let read = read(&settings, topic, "").await;
        assert!(read.records.is_empty());
        assert_eq!(read.end, kafka.end_offsets(topic).await?[0]);
        Ok((offset_of_first_record(&kafka, topic).await > 2).then_some(()))
    })
    .await
    .unwrap();
}

/// A Kafka with this topic, from which records are compacted away soon after they are superseded.
pub(crate) async fn with_quickly_compacted(topic: &str) -> KafkaCluster {
    let options = KafkaOptions::default().set("log.cleaner.backoff.ms", "100");
    let kafka = KafkaCluster::start(options).await.unwrap();
    let settings = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("delete.retention.ms", "0"),
        ("min.cleanable.dirty.ratio", "0.01"),
    ];
    kafka.create_topic(topic, 1, &settings).await.unwrap();
    kafka
}

pub(crate) async fn offset_of_first_record(kafka: &KafkaCluster, topic: &'static str) -> i64 {
    use rdkafka::consumer::{BaseConsumer, Consumer};
    use rdkafka::{Message, Offset, TopicPartitionList};
    let consumer: BaseConsumer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", kafka.bootstrap())
        .set("group.id", "looking")
        .create()
        .unwrap();
    blocking(move || {
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
        consumer.assign(&assignment).unwrap();
        consumer.poll(DEADLINE).unwrap().unwrap().offset()
    })
    .await
}

#[tokio::test]
async fn a_frozen_broker_is_reported() {
    let mut kafka = KafkaCluster::start(KafkaOptions::default()).await.unwrap();
    let settings = settings(&kafka);
    put(&settings, "frozen.state", &[("a", Some("1"))]).await;
    kafka.pause().unwrap();
    let (own, name) = (settings.clone(), topic_name("frozen.state"));
    let reading = timeout(DEADLINE, blocking(move || command_state_topic(&own, &name)?.read(b"")));
    let failure = reading.await.expect("no endless wait").unwrap_err();
    kafka.resume().unwrap();
    assert_eq!(failure.code, Code::KafkaUnreachable, "{failure}");
    let name = topic_name("frozen.state");
    if let Err(failure) = blocking(move || command_state_topic(&settings, &name)?.read(b"")).await {
        let log = kafka.broker(1).and_then(|broker| broker.process()?.output()).unwrap();
        panic!("{failure}; the broker's log:\n{log}");
    }
}
