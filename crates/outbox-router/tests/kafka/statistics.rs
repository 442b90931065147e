//! librdkafka's statistics of a real broker, as the sink publishes them.

use std::time::Duration;

use outbox_router::kafka::{
    BrokerConnection, BrokerStatistics, KafkaSettings, StatisticsFeed, TopicLimits, open,
};
use relay::{Acks, Record, TopicId};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::broker::{DEADLINE, blocking, settings, shared, topic_name};
use crate::topics::{acked, give_at};

/// Serves the sink until the next statistics have come.
async fn next(
    sink: &mut outbox_router::kafka::KafkaSink,
    told: &mut watch::Receiver<BrokerStatistics>,
) -> BrokerStatistics {
    let mut acks = Acks::default();
    let come = async {
        while !told.has_changed().unwrap() {
            sink.wait_acks().await;
            assert_eq!(sink.poll_acks(&mut acks, 1_000), None);
        }
    };
    timeout(DEADLINE, come).await.expect("in time");
    told.borrow_and_update().clone()
}

#[tokio::test]
async fn the_figures_of_a_broker_come_move_and_begin_anew_with_the_producer() {
    let kafka = shared().await;
    kafka.create_topic("measured", 1, &[]).await.unwrap();
    let (feed, mut told) = StatisticsFeed::every(Duration::from_secs(1));
    let settings = KafkaSettings { statistics: Some(feed), ..settings(&kafka) };
    let topic = TopicId::from_index(0).unwrap();
    let mut sink = open(&settings).unwrap();
    assert_eq!(told.borrow_and_update().received, None);
    sink.bind_topic(topic, &topic_name("measured"), TopicLimits::default());

    let mut acks = Acks::default();
    give_at(&mut sink, topic, Record::NOW).unwrap();
    acked(&mut sink, &mut acks, 1).await;
    let first = next(&mut sink, &mut told).await;
    for _ in 0..50 {
        give_at(&mut sink, topic, Record::NOW).unwrap();
    }
    acked(&mut sink, &mut acks, 51).await;
    // What was answered is in this one, or was in part in the one before.
    next(&mut sink, &mut told).await;
    let second = next(&mut sink, &mut told).await;

    assert!(second.received > first.received);
    assert_eq!((second.brokers.len(), second.others), (1, 0), "{second:?}");
    let (node, broker) = second.brokers.first_key_value().unwrap();
    assert!(*node >= 0 && kafka.bootstrap().contains(&broker.address), "{second:?}");
    assert_eq!(broker.connection, Some(BrokerConnection::Up));
    let before = &first.brokers[node];
    assert!(before.requests > 0 && broker.requests > before.requests, "{before:?} {broker:?}");
    assert!(broker.sent_bytes > before.sent_bytes + 50 * 400, "{before:?} {broker:?}");
    assert!(broker.received_bytes > before.received_bytes);
    assert!(broker.connects >= 1);
    let trip = before.round_trip.expect("a record was acknowledged in the first interval");
    assert!(Duration::ZERO < trip.p50 && trip.p50 <= trip.max && trip.max < DEADLINE, "{trip:?}");

    blocking(move || sink.close()).await;
    let other = open(&settings).unwrap();
    let anew = told.borrow_and_update().clone();
    assert!(anew.received.is_none() && anew.brokers.is_empty(), "{anew:?}");
    blocking(move || other.close()).await;
}
