//! The first failure closes the sink, and nothing is produced after it.

use crate::codes::hint;
use std::time::Duration;

use rdkafka::types::{RDKafkaApiKey, RDKafkaErrorCode, RDKafkaRespErr};
use relay::{Acks, Code, RecordSink, RefusalReason, RowHeaders};
use tokio::time::Instant;

use super::cluster::{
    Cluster, DEADLINE, ORDERS, acked, give, number, orders, orders_name, record, ticket, until,
};
use crate::kafka::{
    Health, KafkaSettings, KafkaSink, TopicLimits,
    ffi::{ClientError, Delivery, Events, Producer, Report, Served},
    open,
};

/// Order depends on `enable.gapless.guarantee`, which librdkafka marks as experimental, so this
/// test checks librdkafka alone, without the purge that the sink adds. One batch is refused for
/// good while nothing else is in flight (otherwise the broker would notice the gap by sequence
/// numbers), and nothing that is produced later may reach the log.
#[tokio::test]
async fn gapless_stops_the_producer_after_a_rejected_batch() {
    let (cluster, bystander) = Cluster::with_orders(1);
    bystander.close();
    let producer = Producer::open(&cluster.settings().client_config().unwrap()).unwrap();
    let topic = producer.topic(&orders_name()).unwrap();
    let mut outcomes = Outcomes::default();
    let row = RowHeaders::new();
    for n in 0..10_u32 {
        if n == 2 {
            let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_RECORD;
            cluster.mock.request_errors(RDKafkaApiKey::Produce, &[error]);
        }
        let value = n.to_string();
        match producer.produce(&topic, &record(value.as_bytes(), &row), n.into()) {
            Ok(()) => outcomes.wait_for(n, &producer),
            Err(error) => outcomes.0.push((n.into(), Delivery::Failed(error))),
        }
    }
    let failed = Delivery::Failed;
    let mut expected = vec![
        (0, Delivery::Stored { offset: 0 }),
        (1, Delivery::Stored { offset: 1 }),
        (2, failed(RDKafkaErrorCode::InvalidRecord)),
    ];
    expected.extend((3..10).map(|n| (n, failed(RDKafkaErrorCode::Fatal))));
    assert_eq!(outcomes.0, expected);
    assert_eq!(cluster.read_numbers(0), [0, 1], "something got past the gap");
}

#[derive(Default)]
struct Outcomes(Vec<(u64, Delivery)>);

impl Outcomes {
    fn wait_for(&mut self, opaque: u32, producer: &Producer) {
        let deadline = Instant::now() + DEADLINE;
        while self.0.last().is_none_or(|last| last.0 != u64::from(opaque)) {
            assert!(Instant::now() < deadline, "{:?}", self.0);
            if producer.serve(self) == Served::QueueEmpty {
                std::thread::yield_now();
            }
        }
    }
}

impl Events for Outcomes {
    fn report(&mut self, report: Report) {
        self.0.push((report.opaque, report.delivery));
    }

    fn client_error(&mut self, _: ClientError) {}

    fn log(&mut self, _: i32, _: &str, _: &str) {}
}

fn one_record_at_a_time(cluster: &Cluster) -> KafkaSettings {
    let mut settings = cluster.settings();
    settings.properties.insert("batch.num.messages".into(), "1".into());
    settings
}

/// As with a real broker, what was already in flight behind the refused batch is out of sequence.
/// (The mock cluster does not check sequence numbers, so the test sets these errors.)
fn refuse_one_batch(cluster: &Cluster, error: RDKafkaRespErr) {
    let behind = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER; 10];
    let errors: Vec<_> = std::iter::once(error).chain(behind).collect();
    cluster.mock.request_errors(RDKafkaApiKey::Produce, &errors);
}

#[tokio::test]
async fn a_rejected_record_is_named_and_everything_behind_it_is_left_to_the_replay() {
    use RDKafkaRespErr as E;
    for (error, code) in [
        (E::RD_KAFKA_RESP_ERR_INVALID_RECORD, Code::RecordRefused),
        (E::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, Code::RecordTooLarge),
        (E::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Code::TopicForbidden),
    ] {
        let (cluster, bystander) = Cluster::with_orders(1);
        bystander.close();
        let mut sink = cluster.sink(&one_record_at_a_time(&cluster));
        let mut acks = Acks::default();
        give(&mut sink, &mut acks, 0, 0..2, |n| ticket(u64::from(n))).await;
        assert_eq!(until(&mut sink, &mut acks, |_, acks| acked(acks) == 2).await, None);

        refuse_one_batch(&cluster, error);
        for n in 2..50 {
            // The failure may be there before the last record is given.
            if let Err(refusal) = number(&mut sink, 0, n, ticket(u64::from(n))) {
                assert_eq!(refusal.reason, RefusalReason::Closed);
            }
        }
        let trouble = until(&mut sink, &mut acks, |_, _| false).await.unwrap();
        assert_eq!(trouble.failure.code, code, "{}", trouble.failure);
        assert_eq!(trouble.transaction, Some(ticket(2).transaction()), "the culprit is named");
        assert_eq!(trouble.topic, Some(orders()));
        assert!(trouble.failure.message.contains("topic orders"), "{}", trouble.failure);

        assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
        assert_eq!(acked(&acks), 2, "nothing behind the failed record was acknowledged");
        assert_eq!(cluster.read_numbers(0), [0, 1], "{error:?}");
    }
}

#[tokio::test]
async fn after_the_first_failure_the_sink_refuses_everything() {
    let (cluster, mut sink) = Cluster::with_orders(1);
    cluster.mock.request_errors(
        RDKafkaApiKey::Produce,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_RECORD],
    );
    number(&mut sink, 0, 0, ticket(5)).unwrap();
    let mut acks = Acks::default();
    assert!(until(&mut sink, &mut acks, |_, _| false).await.is_some());

    let refusal = number(&mut sink, 0, 1, ticket(6)).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::Closed);
    assert_eq!(refusal.ticket, ticket(6));
    assert_eq!(sink.poll_acks(&mut acks, 1_000), None, "a failure is told once");
    assert!(acks.is_empty());
}

#[tokio::test]
async fn a_record_that_cannot_be_enqueued_closes_the_sink_and_wakes_the_waiter() {
    let (cluster, mut sink) = Cluster::with_orders(1);
    let row = RowHeaders::new();
    let value = vec![b'x'; 3 << 20];
    let mut acks = Acks::default();
    give(&mut sink, &mut acks, 0, 0..2, |_| ticket(1)).await;
    let refusal = sink.produce(&record(&value, &row), ticket(2)).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::Closed);
    let trouble = until(&mut sink, &mut acks, |_, _| false).await.unwrap();
    assert_eq!(trouble.failure.code, Code::RecordTooLarge);
    assert_eq!(trouble.transaction, Some(ticket(2).transaction()));

    assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
    let log = cluster.read_numbers(0);
    assert!(usize::try_from(acked(&acks)).unwrap() <= log.len(), "acknowledged but not there");
}

#[tokio::test]
async fn a_partition_that_is_gone_is_a_topic_that_shrank() {
    let (_cluster, mut sink) = Cluster::with_orders(2);
    let refusal = number(&mut sink, 2, 0, ticket(1)).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::Closed);
    let trouble = sink.poll_acks(&mut Acks::default(), 1_000).unwrap();
    assert_eq!(trouble.failure.code, Code::TopicShrunk);
}

#[tokio::test]
async fn a_topic_that_was_not_bound_is_refused() {
    let (cluster, sink) = Cluster::with_orders(1);
    sink.close();
    let mut sink = open(&cluster.settings()).unwrap();
    assert_eq!(number(&mut sink, 0, 0, ticket(1)).unwrap_err().reason, RefusalReason::Closed);
    assert!(sink.poll_acks(&mut Acks::default(), 1).is_some());
}

#[tokio::test]
async fn a_fatal_error_of_the_producer_closes_the_sink_with_the_brokers_reason() {
    let cluster = Cluster::start();
    cluster.mock.create_topic(ORDERS, 1, 1).unwrap();
    cluster.mock.request_errors(
        RDKafkaApiKey::InitProducerId,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED; 20],
    );
    let mut sink = cluster.sink(&cluster.settings());
    // The producer may have failed before the first record or after it.
    if number(&mut sink, 0, 0, ticket(1)).is_ok() {
        assert_eq!(sink.unacked(), 1);
    }
    let mut acks = Acks::default();
    let trouble = until(&mut sink, &mut acks, |_, _| false).await.unwrap();
    assert_eq!(trouble.failure.code, Code::ClusterForbidden, "{}", trouble.failure);
    assert!(hint(&trouble.failure).unwrap().contains("IdempotentWrite"));
    assert!(acks.is_empty());
}

#[tokio::test]
async fn a_fatal_error_after_a_record_was_given_is_reported_with_the_brokers_reason() {
    let cluster = Cluster::start();
    cluster.mock.create_topic(ORDERS, 1, 1).unwrap();
    cluster.mock.request_errors(
        RDKafkaApiKey::InitProducerId,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED; 20],
    );
    cluster.mock.broker_round_trip_time(-1, Duration::from_millis(500)).unwrap();
    let mut sink = open(&cluster.settings()).unwrap();
    sink.bind_topic(orders(), &orders_name(), TopicLimits::default());
    number(&mut sink, 0, 0, ticket(1)).unwrap();
    let mut acks = Acks::default();
    let trouble = until(&mut sink, &mut acks, |_, _| false).await.unwrap();
    assert_eq!(trouble.failure.code, Code::ClusterForbidden, "{}", trouble.failure);
    assert!(acks.is_empty());
}

#[tokio::test]
async fn while_no_broker_answers_nothing_fails_and_the_health_gives_the_reason() {
    let (cluster, mut sink) = Cluster::with_orders(1);
    cluster.mock.broker_down(-1).unwrap();
    number(&mut sink, 0, 0, ticket(1)).unwrap();
    let mut acks = Acks::default();
    let complaint = |sink: &KafkaSink, _: &Acks| matches!(sink.health(), Health::Down(_));
    assert_eq!(until(&mut sink, &mut acks, complaint).await, None);
    assert!(
        matches!(sink.health(), Health::Down(failure) if failure.code == Code::KafkaUnreachable)
    );
    let told = |sink: &KafkaSink, _: &Acks| matches!(sink.health(), Health::Down(failure) if failure.message.contains("127.0.0.1:"));
    assert_eq!(until(&mut sink, &mut acks, told).await, None, "the broker's own error is told");
    assert!(acks.is_empty());

    cluster.mock.broker_up(-1).unwrap();
    assert_eq!(until(&mut sink, &mut acks, |_, acks| acked(acks) == 1).await, None);
    assert_eq!(sink.health(), Health::Well, "an acknowledgement proves that all is well");
}

#[tokio::test]
async fn closing_with_unacknowledged_records_acknowledges_none_of_them() {
    let (cluster, mut sink) = Cluster::with_orders(100);
    cluster.mock.broker_round_trip_time(-1, Duration::from_secs(20)).unwrap();
    for partition in 0..100 {
        number(&mut sink, partition, 0, ticket(1)).unwrap();
    }
    let mut acks = Acks::default();
    assert_eq!(sink.poll_acks(&mut acks, 1_000), None);
    assert!(acks.is_empty());
    assert_eq!(sink.unacked(), 100);
    let started = Instant::now();
    tokio::task::spawn_blocking(|| sink.close()).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(10), "closing waits for no answer");
}
