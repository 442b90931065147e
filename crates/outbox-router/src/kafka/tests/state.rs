//! Records of the state topic: beside events, and never mixed up with them.

use std::time::Duration;

use crate::codes::hint;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use relay::{Acks, Case, Code, Failure, RefusalReason, TopicName, WriteAck};
use tokio::task::spawn_blocking;

use super::cluster::{Cluster, acked, give, number, orders, orders_name, ticket, until};
use crate::kafka::{
    KafkaSink, StateLog, StateTopic, TopicLimits, command_state_topic, open, put_state,
};

const STATE: &str = "outbox-router.state";

fn state_name() -> TopicName {
    TopicName::new(STATE).unwrap()
}

/// A sink that knows `orders` and the state topic.
fn with_state() -> (Cluster, KafkaSink) {
    let (cluster, mut sink) = Cluster::with_orders(1);
    cluster.mock.create_topic(STATE, 1, 1).unwrap();
    sink.bind_state(&state_name());
    (cluster, sink)
}

fn state_topic(cluster: &Cluster, sink: &KafkaSink) -> StateTopic {
    sink.state_topic(&cluster.settings(), state_name())
}

fn pairs(read: &StateLog) -> Vec<(&[u8], &[u8])> {
    read.records.iter().map(|record| (&*record.key, &*record.value)).collect()
}

/// Writes and waits for the acknowledgement.
async fn write(sink: &mut KafkaSink, key: &[u8], value: Option<&[u8]>, number: u64) {
    sink.write_state(key, value, number).unwrap();
    let mut acks = Acks::default();
    assert_eq!(until(sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
    assert!(acks.is_empty(), "a state record counts as no event");
    assert_eq!(sink.written_state().map(|ack| ack.number), Some(number));
    assert_eq!(sink.written_state(), None, "told once");
}

#[tokio::test]
async fn a_state_record_is_acknowledged_separately_from_events() {
    let (cluster, mut sink) = with_state();
    let mut acks = Acks::default();
    give(&mut sink, &mut acks, 0, 0..50, |_| ticket(1)).await;
    // A number that would be somebody's ticket.
    let write = ticket(1).into_opaque();
    sink.write_state(b"pipeline", Some(b"one"), write).unwrap();
    give(&mut sink, &mut acks, 0, 50..100, |_| ticket(1)).await;
    assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
    assert_eq!(acked(&acks), 100);
    assert!(acks.runs().iter().all(|run| run.topic == orders()));
    assert_eq!(sink.written_state(), Some(WriteAck { number: write, offset: 0 }));
    assert_eq!(cluster.read_numbers(0), (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn one_state_record_is_in_flight_at_a_time() {
    let (_cluster, mut sink) = with_state();
    sink.write_state(b"pipeline", Some(b"one"), 1).unwrap();
    assert_eq!(sink.unacked(), 1);
    let refused = sink.write_state(b"pipeline", Some(b"two"), 2);
    assert_eq!(refused, Err(RefusalReason::PartitionWaits));
    let mut acks = Acks::default();
    assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
    assert_eq!(sink.written_state(), Some(WriteAck { number: 1, offset: 0 }));
    write(&mut sink, b"pipeline", Some(b"two"), 2).await;
}

#[tokio::test]
async fn a_state_topic_without_a_leader_is_out_of_reach_and_not_missing() {
    let (cluster, sink) = with_state();
    cluster.mock.partition_leader(STATE, 0, None).unwrap();
    let topic = state_topic(&cluster, &sink);
    let read = spawn_blocking(move || (topic.read(b"").err(), topic.extent().err()));
    let (read, end) = read.await.unwrap();
    for failure in [read, end] {
        let failure = failure.unwrap();
        assert_eq!(failure.code, Code::KafkaUnreachable, "{failure:?}");
        assert!(failure.message.contains(STATE), "{failure:?}");
    }
}

#[tokio::test]
async fn the_latest_value_of_each_key_with_the_prefix_is_read() {
    let (cluster, mut sink) = with_state();
    let topic = state_topic(&cluster, &sink);
    let empty = topic.read(b"").unwrap();
    assert_eq!((empty.end, &*empty.records), (0, &[][..]));
    assert_eq!(topic.extent().unwrap().end, 0);

    for (number, (key, value)) in (1..).zip([
        (&b"a/1"[..], Some(&b"old"[..])),
        (b"a/2", Some(b"gone")),
        (b"b/1", Some(b"another")),
        (b"a/1", Some(b"new")),
        (b"a/2", None),
        (b"a/3", Some(b"")),
    ]) {
        write(&mut sink, key, value, number).await;
    }
    assert_eq!(topic.extent().unwrap().end, 6);
    let read = topic.read(b"a/").unwrap();
    assert_eq!(read.end, 6);
    assert_eq!(pairs(&read), [(&b"a/1"[..], &b"new"[..]), (b"a/3", b"")]);
    assert_eq!(read.records[0].offset, 3);
    assert!(read.cluster_id.starts_with("mockCluster"), "{}", read.cluster_id);
    assert_eq!(topic.read(b"").unwrap().records.len(), 3);
    assert_eq!(topic.read(b"c").unwrap().records, []);
}

#[tokio::test]
async fn a_refused_state_record_closes_the_sink_like_any_other_failure() {
    use RDKafkaRespErr as E;
    for (error, code) in [
        (E::RD_KAFKA_RESP_ERR_INVALID_RECORD, Code::RecordRefused),
        (E::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Code::TopicForbidden),
        // librdkafka reports success, but no broker has named the record's offset.
        (E::RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER, Code::AckWithoutOffset),
    ] {
        let (cluster, mut sink) = with_state();
        cluster.mock.request_errors(RDKafkaApiKey::Produce, &[error]);
        sink.write_state(b"pipeline", Some(b"one"), 1).unwrap();
        let mut acks = Acks::default();
        let trouble = until(&mut sink, &mut acks, |_, _| false).await.unwrap();
        assert_eq!(trouble.failure.code, code, "{}", trouble.failure);
        assert_eq!((trouble.transaction, trouble.topic), (None, None));
        assert!(
            trouble.failure.message.contains(STATE)
                || hint(&trouble.failure).unwrap().contains(STATE)
        );
        assert_eq!(sink.written_state(), None);
        assert_eq!(sink.write_state(b"pipeline", None, 2), Err(RefusalReason::Closed));
        let refusal = number(&mut sink, 0, 1, ticket(1)).unwrap_err();
        assert_eq!(refusal.reason, RefusalReason::Closed);
        assert_eq!(sink.unacked(), 0);
    }
}

#[tokio::test]
async fn a_failed_event_takes_the_state_record_in_flight_with_it() {
    let (cluster, mut sink) = with_state();
    let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_RECORD;
    cluster.mock.request_errors(RDKafkaApiKey::Produce, &[error; 2]);
    // Both are in flight before the broker can refuse the first.
    cluster.mock.broker_down(-1).unwrap();
    number(&mut sink, 0, 0, ticket(1)).unwrap();
    sink.write_state(b"pipeline", Some(b"one"), 1).unwrap();
    cluster.mock.broker_up(-1).unwrap();
    let mut acks = Acks::default();
    assert!(until(&mut sink, &mut acks, |_, _| false).await.is_some());
    assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
    assert_eq!(sink.written_state(), None);
    assert!(acks.is_empty());
}

#[tokio::test]
async fn a_topic_of_events_and_the_state_topic_are_never_one() {
    let (_cluster, mut sink) = with_state();
    sink.bind_topic(relay::TopicId::from_index(4).unwrap(), &state_name(), TopicLimits::default());
    let trouble = sink.poll_acks(&mut Acks::default(), 1_000).unwrap();
    assert_eq!(trouble.failure.code, Code::TopicMissing, "{}", trouble.failure);

    let (_cluster, mut sink) = Cluster::with_orders(1);
    sink.bind_state(&orders_name());
    let trouble = sink.poll_acks(&mut Acks::default(), 1_000).unwrap();
    assert_eq!(trouble.failure.code, Code::TopicMissing, "{}", trouble.failure);
}

#[tokio::test]
async fn without_a_state_topic_nothing_is_written() {
    let cluster = Cluster::start();
    let mut sink = open(&cluster.settings()).unwrap();
    assert_eq!(sink.write_state(b"pipeline", None, 1), Err(RefusalReason::Closed));
    assert_eq!(sink.written_state(), None);
}

#[tokio::test]
async fn commands_write_and_read_without_a_sink() {
    let cluster = Cluster::start();
    cluster.mock.create_topic(STATE, 1, 1).unwrap();
    let settings = cluster.settings();
    let record = |key: &[u8], value: Option<&[u8]>| (key.to_vec(), value.map(<[u8]>::to_vec));
    let records = [
        record(b"a", Some(b"1")),
        record(b"b", Some(b"2")),
        record(b"a", None),
        record(b"b", Some(b"3")),
    ];
    put_state(&settings, &state_name(), &records).unwrap();
    let read = command_state_topic(&settings, &state_name()).unwrap().read(b"").unwrap();
    assert_eq!(pairs(&read), [(&b"b"[..], &b"3"[..])]);
}

#[tokio::test]
async fn a_command_learns_why_its_record_was_refused() {
    let cluster = Cluster::start();
    cluster.mock.create_topic(STATE, 1, 1).unwrap();
    let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.mock.request_errors(RDKafkaApiKey::Produce, &[error]);
    let records = [(b"a".to_vec(), None)];
    let failure = put_state(&cluster.settings(), &state_name(), &records).unwrap_err();
    assert_eq!(failure.code, Code::TopicForbidden, "{failure}");
    assert!(hint(&failure).unwrap().contains("--operation Read --operation Write"));
}

#[tokio::test]
async fn a_topic_of_two_partitions_keeps_no_state() {
    let (cluster, sink) = Cluster::with_orders(1);
    cluster.mock.create_topic(STATE, 2, 1).unwrap();
    let failure = state_topic(&cluster, &sink).open().unwrap_err();
    assert_eq!(failure.code, Code::StateTopicUnsuitable);
    assert!(failure.message.contains("has 2 partitions"), "{failure}");
    assert!(hint(&failure).unwrap().contains("--delete --topic outbox-router.state"));
}

/// A broker that does not report a topic's settings, such as the mock cluster, or a broker that
/// refuses the request.
#[tokio::test]
async fn a_topic_whose_settings_are_not_reported_is_used_with_a_caution() {
    let cluster = Cluster::of(3);
    let sink = open(&cluster.settings()).unwrap();
    cluster.mock.create_topic(STATE, 1, 1).unwrap();
    let cautions = state_topic(&cluster, &sink).open().unwrap();
    let texts: Vec<&str> = cautions.iter().map(|caution| &*caution.message).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].contains("does not report its cleanup.policy"), "{texts:?}");
    assert!(texts[1].contains("one replica on a cluster of 3 brokers"), "{texts:?}");
}

#[tokio::test]
async fn a_missing_state_topic_is_named_with_the_command_that_creates_it() {
    let (cluster, sink) = Cluster::with_orders(1);
    let failure = state_topic(&cluster, &sink).read(b"").unwrap_err();
    assert_eq!(failure.code, Code::TopicMissing, "{failure}");
    let remedy = hint(&failure).unwrap();
    assert!(
        remedy.contains(
            "--create --topic outbox-router.state --partitions 1 --config cleanup.policy=compact \
             --config segment.bytes=4194304 --config segment.ms=600000 \
             --config min.cleanable.dirty.ratio=0.1;"
        ),
        "{remedy}"
    );
    let without = "where the broker refuses compaction: kafka.state_topic = \"\" keeps no witness";
    assert!(remedy.contains(without), "{remedy}");
    let settings = hint(&Failure::of(Case::StateTopicDeletes, "it deletes")).unwrap();
    assert!(settings.contains(without), "{settings}");
}

#[tokio::test]
async fn an_unreachable_cluster_is_reported_within_the_deadline() {
    let (cluster, sink) = with_state();
    let topic = state_topic(&cluster, &sink);
    drop(cluster);
    for ask in [
        |topic: &StateTopic| topic.read(b"").map(drop),
        |topic: &StateTopic| topic.extent().map(drop),
    ] {
        let asked = std::time::SystemTime::now();
        let failure = ask(&topic).unwrap_err();
        assert_eq!(failure.code, Code::KafkaUnreachable, "{failure}");
        let waited = asked.elapsed().unwrap();
        assert!(waited.as_secs() < 8, "{waited:?}");
    }
}

/// The first answer comes later than a missing topic is asked for again.
#[tokio::test]
async fn a_slow_broker_that_does_not_know_the_topic_yet_is_asked_again() {
    let (cluster, sink) = with_state();
    let topic = state_topic(&cluster, &sink);
    cluster.mock.broker_round_trip_time(-1, Duration::from_millis(400)).unwrap();
    let unknown = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    cluster.mock.request_errors(RDKafkaApiKey::ListOffsets, &[unknown]);
    let read = spawn_blocking(move || topic.read(b"")).await.unwrap();
    assert_eq!(read.map(|read| read.end), Ok(0));
}
