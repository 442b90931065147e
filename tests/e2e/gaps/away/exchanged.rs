//! Another Kafka cluster, which has what a mirror brought there.

use std::sync::Arc;

use e2e::{FixtureKafka, SHORT_DEADLINE, text};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use testbed::kafka::{KafkaCluster, KafkaOptions};
use tokio::task::spawn_blocking;

use super::{
    expect_continues_after_acceptance, expect_missing, fixture_without_router, rounds::rounds,
};

/// Copies the state topic as it is, record by record.
fn mirror(from: &str, to: &str, topic: &str) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", from)
        .set("group.id", "mirror")
        .create()
        .unwrap();
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
    consumer.assign(&partitions).unwrap();
    let (_, end) = consumer.fetch_watermarks(topic, 0, SHORT_DEADLINE).unwrap();
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", to).create().unwrap();
    loop {
        let record = consumer.poll(SHORT_DEADLINE).expect("a record of the state topic").unwrap();
        // A record without a value deletes what an earlier session wrote.
        let copy = BaseRecord::<[u8], [u8]>::to(topic).partition(0).key(record.key().unwrap());
        let copy = match record.payload() {
            Some(payload) => copy.payload(payload),
            None => copy,
        };
        producer.send(copy).unwrap();
        if record.offset() + 1 >= end {
            producer.flush(SHORT_DEADLINE).unwrap();
            return;
        }
    }
}

fn text_of(config: &str, key: &str) -> String {
    let line = config.lines().find(|line| line.trim_start().starts_with(key)).unwrap();
    line.split('"').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn another_kafka_cluster_with_a_copy_of_the_state_topic_is_a_gap() {
    let other =
        Arc::new(KafkaCluster::start(KafkaOptions::default().another_identity()).await.unwrap());
    rounds("another kafka", async move || {
        let (mut fixture, _) = fixture_without_router().await;
        let state = text_of(&fixture.config.to_string(), "kafka.state_topic");
        other.create_topic(&state, 1, &[("cleanup.policy", "compact")]).await.unwrap();
        for topic in &fixture.topics {
            other.create_topic(topic, 3, &[]).await.unwrap();
        }
        let (from, to) = (fixture.kafka.bootstrap(), other.bootstrap());
        fixture.config.set("kafka.bootstrap_servers", to.clone());
        spawn_blocking(move || mirror(&from, &to, &state)).await.unwrap();
        fixture.kafka = FixtureKafka::Shared(Arc::clone(&other));
        fixture.rewrite_config().unwrap();
        let (status, missing) = expect_missing(&mut fixture, "K021").await;
        let message = text(&status, "/reason/message").unwrap();
        assert!(message.contains("cluster"), "{message}");
        expect_continues_after_acceptance(&mut fixture, &missing).await;
    })
    .await;
}
