//! What is known of a topic before the first record.

use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer},
    types::RDKafkaRespErr,
};
use relay::{Code, TopicName};

use super::cluster::{Cluster, DEADLINE, ORDERS, orders_name};
use crate::kafka::{Sight, TopicDirectory, open};

#[tokio::test]
async fn partitions_are_counted_with_those_that_have_no_leader() {
    let (cluster, sink) = Cluster::with_orders(5);
    cluster.mock.partition_leader(ORDERS, 3, None).unwrap();
    let directory = TopicDirectory::new(&sink, &cluster.settings());
    let facts = directory.look_up(&orders_name()).unwrap();
    assert_eq!(facts.partitions.get(), 5);
    assert_eq!(facts.max_message_bytes, None, "the mock cluster does not tell");
    assert_eq!(directory.see(&orders_name()), Ok(Sight::Partitions(facts.partitions)));
}

#[tokio::test]
async fn a_missing_topic_is_reported_and_not_made() {
    let cluster = Cluster::start();
    let sink = open(&cluster.settings(), 1_000_000).unwrap();
    let name = TopicName::new("outbox.event.Missing").unwrap();
    let failure = TopicDirectory::new(&sink, &cluster.settings()).look_up(&name).unwrap_err();
    assert_eq!(failure.code, Code::TopicMissing);
    assert!(failure.message.contains("outbox.event.Missing"), "{failure}");
    assert!(failure.hint.unwrap().contains("--create --topic outbox.event.Missing"));

    let reader: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", &cluster.bootstrap_servers).create().unwrap();
    let metadata = reader.fetch_metadata(None, DEADLINE).unwrap();
    assert!(metadata.topics().is_empty(), "the look-up has made the topic");
}

#[tokio::test]
async fn a_forbidden_topic_is_told_from_a_missing_one() {
    let (cluster, sink) = Cluster::with_orders(1);
    cluster
        .mock
        .topic_error(ORDERS, RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
        .unwrap();
    let directory = TopicDirectory::new(&sink, &cluster.settings());
    let failure = directory.look_up(&orders_name()).unwrap_err();
    assert_eq!(failure.code, Code::TopicForbidden, "{failure}");
}

#[tokio::test]
async fn a_topic_that_was_never_made_is_seen_as_gone() {
    let cluster = Cluster::start();
    let sink = open(&cluster.settings(), 1_000_000).unwrap();
    let directory = TopicDirectory::new(&sink, &cluster.settings());
    let name = TopicName::new("outbox.event.Missing").unwrap();
    assert_eq!(directory.see(&name), Ok(Sight::Gone));
}

#[tokio::test]
async fn nobody_there_is_told_from_a_missing_topic() {
    let (cluster, sink) = Cluster::with_orders(1);
    let directory = TopicDirectory::new(&sink, &cluster.settings());
    drop(cluster);
    let failure = directory.see(&orders_name()).unwrap_err();
    assert_eq!(failure.code, Code::KafkaUnreachable, "{failure}");
}
