//! What is known of a topic before the first record.

use crate::codes::hint;
use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer},
    types::RDKafkaRespErr,
};
use relay::{Acks, Code, TopicId, TopicName};

use super::cluster::{Cluster, DEADLINE, ORDERS, RequestLog, orders, orders_name, until};
use crate::kafka::{Health, KafkaSink, TopicLimits, TopicLookup, TopicReading, open};

#[tokio::test]
async fn partitions_are_counted_with_those_that_have_no_leader() {
    let (cluster, sink) = Cluster::with_orders(5);
    cluster.mock.partition_leader(ORDERS, 3, None).unwrap();
    let topic_client = sink.topic_client(&cluster.settings());
    let facts = topic_client.look_up(&orders_name()).unwrap().facts;
    assert_eq!(facts.partitions.get(), 5);
    assert_eq!(facts.max_message_bytes, None, "the mock cluster does not tell");
    let seen = topic_client.read_topics(&[orders_name()]).unwrap();
    assert_eq!(seen[0].lookup, TopicLookup::Partitions(facts.partitions));
}

#[tokio::test]
async fn the_command_that_creates_a_missing_topic_asks_for_no_more_replicas_than_there_are_brokers()
{
    for (brokers, factor) in [(1, 1), (2, 2), (4, 3)] {
        let cluster = Cluster::of(brokers);
        let sink = open(&cluster.settings()).unwrap();
        let name = TopicName::new("outbox.event.Missing").unwrap();
        let failure = sink.topic_client(&cluster.settings()).look_up(&name).unwrap_err();
        let remedy = hint(&failure).unwrap();
        assert!(remedy.contains(&format!("--replication-factor {factor};")), "{remedy}");
    }
}

#[tokio::test]
async fn a_missing_topic_is_reported_and_not_created() {
    let cluster = Cluster::start();
    let sink = open(&cluster.settings()).unwrap();
    let name = TopicName::new("outbox.event.Missing").unwrap();
    let failure = sink.topic_client(&cluster.settings()).look_up(&name).unwrap_err();
    assert_eq!(failure.code, Code::TopicMissing);
    assert!(failure.message.contains("outbox.event.Missing"), "{failure}");
    assert!(hint(&failure).unwrap().contains("--create --topic outbox.event.Missing"));

    let reader: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", &cluster.bootstrap_servers).create().unwrap();
    let metadata = reader.fetch_metadata(None, DEADLINE).unwrap();
    assert!(metadata.topics().is_empty(), "the look-up has made the topic");
}

#[tokio::test]
async fn a_forbidden_topic_is_distinguished_from_a_missing_one() {
    let (cluster, sink) = Cluster::with_orders(1);
    cluster
        .mock
        .topic_error(ORDERS, RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
        .unwrap();
    let topic_client = sink.topic_client(&cluster.settings());
    let failure = topic_client.look_up(&orders_name()).unwrap_err();
    assert_eq!(failure.code, Code::TopicForbidden, "{failure}");
}

#[tokio::test]
async fn a_topic_that_does_not_exist_is_reported_as_gone() {
    let cluster = Cluster::start();
    let mut sink = open(&cluster.settings()).unwrap();
    let name = TopicName::new("outbox.event.Missing").unwrap();
    sink.bind_topic(orders(), &name, TopicLimits::default());
    let topic_client = sink.topic_client(&cluster.settings());
    assert_eq!(
        topic_client.read_topics(&[name]),
        Ok(vec![TopicReading { lookup: TopicLookup::Gone, uuid: None }])
    );
}

/// All topics are asked for in one request, and their ids in another.
#[tokio::test]
async fn all_topics_in_use_are_read_at_once() {
    let (cluster, sink) = Cluster::with_orders(2);
    sink.close();
    let mut settings = cluster.settings();
    settings.properties.insert("debug".into(), "protocol".into());
    let mut sink = cluster.sink(&settings);
    let names: Vec<_> =
        (0..20).map(|n| TopicName::new(&format!("outbox.event.{n}")).unwrap()).collect();
    for ((n, index), name) in (10..).zip(100..).zip(&names) {
        if n % 5 != 0 {
            cluster.mock.create_topic(name.as_str(), n, 1).unwrap();
        }
        sink.bind_topic(TopicId::from_index(index).unwrap(), name, TopicLimits::default());
    }
    let forbidden = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.mock.topic_error("outbox.event.1", forbidden).unwrap();
    let topic_client = sink.topic_client(&settings);
    // librdkafka asks for the metadata of new handles by itself; this is not to be counted.
    let settled = topic_client.read_topics(&names).unwrap();
    let mut log = RequestLog::start();
    drop(log.sent(&mut sink));
    let seen = topic_client.read_topics(&names).unwrap();
    let sent = log.sent(&mut sink);
    // librdkafka may add one of its own.
    let requests = sent.iter().filter(|request| *request == "MetadataRequest").count();
    assert!((2..=4).contains(&requests), "{sent:?}");

    assert_eq!(seen, settled);
    for (n, seen) in (10..).zip(&seen) {
        let expected = match n {
            11 => TopicLookup::Unclear,
            n if n % 5 == 0 => TopicLookup::Gone,
            n => TopicLookup::Partitions(n.try_into().unwrap()),
        };
        assert_eq!(seen.lookup, expected, "{n}");
        assert_eq!(seen.uuid.is_some(), matches!(expected, TopicLookup::Partitions(_)), "{n}");
    }
    let same = topic_client.read_topics(&names).unwrap();
    assert_eq!(same, seen, "ids stay");
}

/// A broker may know the topic and not answer the second request. Its silence must not be taken for
/// a topic without a limit, whose batches would then be refused.
#[tokio::test]
async fn a_topic_whose_settings_cannot_be_read_is_not_taken_for_one_without_a_limit() {
    let (cluster, mut sink) = Cluster::with_orders(1);
    let topic_client = sink.topic_client(&cluster.settings());
    let ask = || topic_client.settings(&orders_name(), [c"max.message.bytes"], 1);
    assert_eq!(ask(), Ok([None]), "the mock cluster says that it has no such request");
    cluster.mock.broker_down(-1).unwrap();
    let down = |sink: &KafkaSink, _: &Acks| matches!(sink.health(), Health::Down(_));
    assert_eq!(until(&mut sink, &mut Acks::default(), down).await, None);
    let failure = ask().unwrap_err();
    assert_eq!(failure.code, Code::KafkaUnreachable, "{failure}");
}

#[tokio::test]
async fn an_unreachable_cluster_is_distinguished_from_a_missing_topic() {
    let (cluster, sink) = Cluster::with_orders(1);
    let topic_client = sink.topic_client(&cluster.settings());
    drop(cluster);
    let failure = topic_client.read_topics(&[orders_name()]).unwrap_err();
    assert_eq!(failure.code, Code::KafkaUnreachable, "{failure}");
}
