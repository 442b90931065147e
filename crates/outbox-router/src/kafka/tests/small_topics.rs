//! Topics that take smaller batches than the producer makes.

use relay::{
    Acks, Record, RecordSink, Refusal, RefusalReason, RowHeaders, Ticket, TopicId, TopicName,
};

use super::cluster::{Cluster, ORDERS, RequestLog, acked, orders, orders_name, record, until};
use crate::kafka::{KafkaSink, TopicLimits};

/// `max.message.bytes` of `orders`.
const SMALL: usize = 2_000;
const BESIDE: &str = "beside";

fn beside() -> TopicId {
    TopicId::from_index(5).unwrap()
}

fn limits(max_message_bytes: usize) -> TopicLimits {
    TopicLimits { max_message_bytes: Some(max_message_bytes), ..TopicLimits::default() }
}

/// A sink that knows `orders`, which is small, and another topic, which is not.
fn with_small_orders(partitions: i32, properties: &[(&str, &str)]) -> (Cluster, KafkaSink) {
    let cluster = Cluster::start();
    for topic in [ORDERS, BESIDE] {
        cluster.mock.create_topic(topic, partitions, 1).unwrap();
    }
    let mut settings = cluster.settings();
    settings.properties.extend(properties.iter().map(|(k, v)| ((*k).into(), (*v).into())));
    let mut sink = cluster.sink(&settings);
    sink.bind_topic(orders(), &orders_name(), limits(SMALL));
    sink.bind_topic(beside(), &TopicName::new(BESIDE).unwrap(), limits(1_048_588));
    (cluster, sink)
}

/// Produces a record of `bytes` with a ticket that says so.
fn give(sink: &mut KafkaSink, topic: TopicId, partition: i32, bytes: usize) -> Result<(), Refusal> {
    let (value, row) = (vec![b'v'; bytes], RowHeaders::new());
    let record = Record { topic, partition, ..record(&value, &row) };
    let units = u64::try_from(record.held_bytes().div_ceil(64)).unwrap();
    sink.produce(&record, Ticket::from_opaque(7 << 56 | 1 << 20 | units))
}

async fn all_acked(sink: &mut KafkaSink, acks: &mut Acks) {
    assert_eq!(until(sink, acks, |sink, _| sink.unacked() == 0).await, None);
}

#[tokio::test]
async fn what_is_on_its_way_to_a_small_topics_partition_fits_one_batch() {
    let (_cluster, mut sink) = with_small_orders(2, &[]);
    let mut acks = Acks::default();
    for partition in 0..2 {
        give(&mut sink, orders(), partition, 400).unwrap();
        give(&mut sink, beside(), partition, 400).unwrap();
    }
    all_acked(&mut sink, &mut acks).await;

    for _ in 0..2 {
        give(&mut sink, orders(), 0, 400).unwrap();
    }
    let refusal = give(&mut sink, orders(), 0, 400).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::PartitionWaits);
    give(&mut sink, orders(), 1, 1_000).unwrap();
    assert_eq!(
        give(&mut sink, orders(), 1, 500).unwrap_err().reason,
        RefusalReason::PartitionWaits
    );
    for _ in 0..100 {
        give(&mut sink, beside(), 0, 400).unwrap();
    }
    all_acked(&mut sink, &mut acks).await;
    // Only the broker sees the compressed size, so a single record may always be sent.
    give(&mut sink, orders(), 0, 5_000).unwrap();
    assert_eq!(give(&mut sink, orders(), 0, 1).unwrap_err().reason, RefusalReason::PartitionWaits);
    all_acked(&mut sink, &mut acks).await;
}

#[tokio::test]
async fn batches_of_other_topics_stay_large() {
    let (cluster, mut sink) = with_small_orders(1, &[("debug", "protocol")]);
    let mut acks = Acks::default();
    for topic in [orders(), beside()] {
        give(&mut sink, topic, 0, 400).unwrap();
    }
    all_acked(&mut sink, &mut acks).await;
    let mut log = RequestLog::start();
    let before = acked(&acks);
    for n in 0..3_000 {
        if n % 300 == 0 {
            while give(&mut sink, orders(), 0, 400).is_err() {
                let before = acked(&acks);
                assert_eq!(until(&mut sink, &mut acks, |_, acks| acked(acks) > before).await, None);
            }
        }
        give(&mut sink, beside(), 0, 400).unwrap();
    }
    all_acked(&mut sink, &mut acks).await;
    assert_eq!(acked(&acks) - before, 3_010);
    let requests = log.sent(&mut sink).iter().filter(|sent| *sent == "ProduceRequest").count();
    assert!(requests < 200, "{requests} batches for 3,010 records of 400 bytes");
    assert_eq!(cluster.read(0).len(), 11);
}

#[tokio::test]
async fn a_limit_that_is_raised_holds_nothing_back_any_more() {
    let (_cluster, mut sink) = with_small_orders(1, &[]);
    let mut acks = Acks::default();
    assert!(sink.limits_in_flight(orders()));
    assert!(!sink.limits_in_flight(beside()));
    give(&mut sink, orders(), 0, 400).unwrap();
    all_acked(&mut sink, &mut acks).await;
    for _ in 0..2 {
        give(&mut sink, orders(), 0, 400).unwrap();
    }
    // The topic is looked up again while records are in flight; these still count.
    sink.bind_topic(orders(), &orders_name(), limits(SMALL));
    assert_eq!(
        give(&mut sink, orders(), 0, 400).unwrap_err().reason,
        RefusalReason::PartitionWaits
    );
    sink.bind_topic(orders(), &orders_name(), limits(3_000));
    assert!(sink.limits_in_flight(orders()));
    give(&mut sink, orders(), 0, 400).unwrap();
    assert_eq!(
        give(&mut sink, orders(), 0, 1_000).unwrap_err().reason,
        RefusalReason::PartitionWaits
    );
    all_acked(&mut sink, &mut acks).await;

    sink.bind_topic(orders(), &orders_name(), TopicLimits::default());
    assert!(!sink.limits_in_flight(orders()));
    give(&mut sink, orders(), 0, 400).unwrap();
    all_acked(&mut sink, &mut acks).await;
    for _ in 0..100 {
        give(&mut sink, orders(), 0, 400).unwrap();
    }
    all_acked(&mut sink, &mut acks).await;
}
