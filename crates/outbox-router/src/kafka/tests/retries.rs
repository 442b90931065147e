//! Transient errors: what librdkafka retries, and what that must not cause.

use std::time::Duration;

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use relay::{Acks, Code, RefusalReason, TopicId, TopicName};
use tokio::time;

use super::cluster::{Cluster, acked, give, number, orders, orders_name, ticket, until};
use crate::kafka::{Identity, KafkaSink, TopicLimits};

/// One record in a request, and answers so slow that the next request is sent before the first is
/// answered.
fn one_behind_the_other(partitions: i32) -> (Cluster, KafkaSink) {
    let (cluster, bystander) = Cluster::with_orders(partitions);
    bystander.close();
    let mut settings = cluster.settings();
    settings.properties.insert("batch.num.messages".into(), "1".into());
    let sink = cluster.sink(&settings);
    cluster.mock.broker_round_trip_time(-1, Duration::from_millis(100)).unwrap();
    (cluster, sink)
}

fn refuse_one_batch_for_now(cluster: &Cluster) {
    let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
    cluster.mock.request_errors(RDKafkaApiKey::Produce, &[error]);
}

/// As when a topic is deleted and re-created: the first batch meets no topic; the next, already in
/// flight, meets an empty one.
#[tokio::test]
async fn a_record_is_not_acknowledged_because_a_later_one_was_stored() {
    let (cluster, mut sink) = one_behind_the_other(1);
    let mut acks = Acks::default();
    give(&mut sink, &mut acks, 0, 0..1, |_| ticket(0)).await;
    assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);

    refuse_one_batch_for_now(&cluster);
    number(&mut sink, 0, 1, ticket(1)).unwrap();
    number(&mut sink, 0, 2, ticket(2)).unwrap();
    let trouble =
        until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await.expect("trouble");
    assert_eq!(trouble.failure.code, Code::AckWithoutOffset, "{}", trouble.failure);
    assert!(trouble.failure.message.contains("topic orders"), "{}", trouble.failure);
    assert_eq!(trouble.transaction, Some(ticket(1).transaction()));
    assert_eq!(trouble.topic, Some(orders()));
    assert_eq!(number(&mut sink, 0, 3, ticket(3)).unwrap_err().reason, RefusalReason::Closed);

    assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
    assert_eq!(cluster.read_numbers(0), [0, 2], "the case is not the one that it should be");
    let acknowledged: Vec<_> = acks.runs().iter().map(|run| run.transaction).collect();
    assert!(!acknowledged.contains(&ticket(1).transaction()), "{acknowledged:?}");
}

/// A real broker, too, accepts any first sequence number of a producer that it does not know.
#[tokio::test]
async fn the_first_record_of_a_partition_is_not_overtaken_when_it_is_refused() {
    let (cluster, mut sink) = one_behind_the_other(2);
    let mut acks = Acks::default();
    for partition in 0..2 {
        refuse_one_batch_for_now(&cluster);
        give(&mut sink, &mut acks, partition, 0..5, |_| ticket(1)).await;
        assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
        assert_eq!(cluster.read_numbers(partition), [0, 1, 2, 3, 4]);
    }
    assert_eq!(acked(&acks), 10);
}

#[tokio::test]
async fn a_partition_gets_its_second_record_when_the_first_is_acknowledged() {
    let (_cluster, mut sink) = one_behind_the_other(2);
    let mut acks = Acks::default();
    number(&mut sink, 0, 0, ticket(1)).unwrap();
    let refusal = number(&mut sink, 0, 1, ticket(2)).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::PartitionWaits);
    assert_eq!(refusal.ticket, ticket(2));
    number(&mut sink, 1, 0, ticket(1)).unwrap();
    assert_eq!(sink.unacked(), 2);

    assert_eq!(until(&mut sink, &mut acks, |_, acks| acked(acks) == 2).await, None);
    for n in 1..10 {
        number(&mut sink, 0, n, ticket(2)).unwrap();
        number(&mut sink, 1, n, ticket(2)).unwrap();
    }
    assert_eq!(until(&mut sink, &mut acks, |_, acks| acked(acks) == 20).await, None);
}

/// A broker forgets a producer that has sent nothing for a day, though the partition is the same.
#[tokio::test]
async fn a_partition_that_was_idle_for_a_day_is_sent_one_record_at_first() {
    let (cluster, mut sink) = one_behind_the_other(1);
    let mut acks = Acks::default();
    give(&mut sink, &mut acks, 0, 0..5, |_| ticket(1)).await;
    assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);

    time::pause();
    time::advance(Duration::from_secs(24 * 3600)).await;
    time::resume();
    assert_eq!(sink.poll_acks(&mut acks, 1_000), None);
    refuse_one_batch_for_now(&cluster);
    number(&mut sink, 0, 5, ticket(1)).unwrap();
    let refusal = number(&mut sink, 0, 6, ticket(1)).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::PartitionWaits);
    give(&mut sink, &mut acks, 0, 6..10, |_| ticket(1)).await;
    assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
    assert_eq!(cluster.read_numbers(0), (0..10).collect::<Vec<_>>());
}

/// A topic that was deleted and re-created holds no state of this producer, whatever the former
/// topic held.
#[tokio::test]
async fn a_topic_that_was_looked_up_again_is_sent_one_record_at_first() {
    let (cluster, mut sink) = one_behind_the_other(1);
    let mut acks = Acks::default();
    give(&mut sink, &mut acks, 0, 0..5, |_| ticket(1)).await;
    assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);

    sink.topic_client(&cluster.settings()).look_up(&orders_name()).unwrap();
    sink.bind_topic(orders(), &orders_name(), TopicLimits::default());
    refuse_one_batch_for_now(&cluster);
    give(&mut sink, &mut acks, 0, 5..10, |_| ticket(1)).await;
    assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
    assert_eq!(acked(&acks), 10);
    assert_eq!(cluster.read_numbers(0), (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_topic_with_another_id_is_sent_one_record_at_first() {
    let (cluster, mut sink) = one_behind_the_other(1);
    cluster.mock.create_topic("another", 1, 1).unwrap();
    let another = TopicName::new("another").unwrap();
    sink.bind_topic(TopicId::from_index(9).unwrap(), &another, TopicLimits::default());
    let mut acks = Acks::default();
    give(&mut sink, &mut acks, 0, 0..2, |_| ticket(1)).await;
    assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);

    let topic_client = sink.topic_client(&cluster.settings());
    let seen = topic_client.read_topics(&[orders_name(), another]).unwrap();
    let [own, other] = [0, 1].map(|n| seen[n].uuid.clone().unwrap());
    assert_ne!(own, other);
    for _ in 0..2 {
        assert_eq!(sink.identify_topic(orders(), &own), Identity::Same);
    }
    number(&mut sink, 0, 2, ticket(1)).unwrap();
    number(&mut sink, 0, 3, ticket(1)).unwrap();
    assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);

    assert_eq!(sink.identify_topic(orders(), &other), Identity::Another);
    number(&mut sink, 0, 4, ticket(1)).unwrap();
    let refusal = number(&mut sink, 0, 5, ticket(1)).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::PartitionWaits);
    assert_eq!(sink.identify_topic(orders(), &other), Identity::Same);
}
