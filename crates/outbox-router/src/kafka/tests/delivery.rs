//! A record arrives as it was produced, and is acknowledged once.

use rdkafka::{
    Message,
    types::{RDKafkaApiKey, RDKafkaRespErr},
};
use relay::{Acks, Headers, Record, RecordSink, RefusalReason, RowHeaders};
use tokio::time::timeout;

use super::cluster::{
    Cluster, DEADLINE, acked, give, header, headers_of, number, orders, orders_name, record,
    ticket, until,
};
use crate::kafka::{Keeps, TopicLimits};

#[tokio::test]
async fn a_record_arrives_with_key_value_headers_time_and_partition() {
    let (cluster, mut sink) = Cluster::with_orders(3);
    let format = [
        header("id", Some(b"42")),
        header("empty", Some(b"")),
        header("null", None),
        header("id", Some(b"\0\xff")),
    ];
    let row = RowHeaders::new();
    let record = Record {
        topic: orders(),
        partition: 2,
        key: b"order-1",
        value: Some(b"{\"a\":\0}"),
        headers: Headers::new(&format, &row),
        timestamp_ms: 1_700_000_000_123,
    };
    let mut acks = Acks::default();
    sink.produce(&record, ticket(1)).unwrap();
    assert_eq!(until(&mut sink, &mut acks, |_, acks| acked(acks) == 1).await, None);
    let tombstone = Record { key: b"", value: None, headers: Headers::new(&[], &row), ..record };
    sink.produce(&tombstone, ticket(1)).unwrap();
    sink.produce(&Record { value: Some(b""), ..record }, ticket(1)).unwrap();

    assert_eq!(until(&mut sink, &mut acks, |_, acks| acked(acks) == 3).await, None);

    let log = cluster.read(2);
    let [first, second, third] = log.as_slice() else { panic!("{} records", log.len()) };
    assert_eq!(first.key(), Some(&b"order-1"[..]));
    assert_eq!(first.payload(), Some(&b"{\"a\":\0}"[..]));
    assert_eq!(first.timestamp().to_millis(), Some(1_700_000_000_123));
    let expected: Vec<_> =
        format.iter().map(|h| (h.name.to_owned(), h.value.map(<[u8]>::to_vec))).collect();
    assert_eq!(headers_of(first), expected);
    assert_eq!(second.key(), Some(&b""[..]), "an empty key is a key");
    assert_eq!(second.payload(), None, "null is not empty");
    assert_eq!(headers_of(second), []);
    assert_eq!(third.payload(), Some(&b""[..]), "empty is not null");
    assert!(cluster.read(0).is_empty() && cluster.read(1).is_empty());
}

#[tokio::test]
async fn a_record_without_a_time_of_its_own_carries_that_of_producing() {
    let (cluster, mut sink) = Cluster::with_orders(1);
    let row = RowHeaders::new();
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let before = now();
    sink.produce(&Record { timestamp_ms: Record::NOW, ..record(b"1", &row) }, ticket(1)).unwrap();
    let mut acks = Acks::default();
    assert_eq!(until(&mut sink, &mut acks, |_, acks| acked(acks) == 1).await, None);
    let timestamp = cluster.read(0)[0].timestamp().to_millis().unwrap();
    assert!((before..=now()).contains(&u128::try_from(timestamp).unwrap()), "{timestamp}");
}

#[tokio::test]
async fn a_record_that_its_topic_would_delete_at_once_carries_the_time_of_sending() {
    const DAY_MS: i64 = 86_400_000;
    let (cluster, mut sink) = Cluster::with_orders(1);
    let now = || i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    let (begun, row) = (now(), RowHeaders::new());
    let (young, old) = (begun - DAY_MS, begun - 10 * DAY_MS);
    let mut acks = Acks::default();
    for (n, (keeps, timestamp_ms)) in (1..).zip([
        (Keeps::Millis(7 * DAY_MS), young),
        (Keeps::Millis(7 * DAY_MS), old),
        (Keeps::Unknown, young),
        (Keeps::Always, old),
    ]) {
        let limits = TopicLimits { keeps, ..TopicLimits::default() };
        sink.bind_topic(orders(), &orders_name(), limits);
        sink.produce(&Record { timestamp_ms, ..record(b"1", &row) }, ticket(n)).unwrap();
        assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
    }
    let log = cluster.read(0);
    let times: Vec<_> = log.iter().map(|record| record.timestamp().to_millis().unwrap()).collect();
    let [first, second, third, last] = times[..] else { panic!("{times:?}") };
    assert_eq!((first, last), (young, old));
    assert!([second, third].iter().all(|time| (begun..=now()).contains(time)), "{times:?}");
    let counted: Vec<_> =
        sink.sent_as_new().map(|(name, count, _)| (name.clone(), count)).collect();
    assert_eq!(counted, [(orders_name(), 2)]);
}

#[tokio::test]
async fn acknowledgements_come_back_as_runs_that_add_up() {
    let (_cluster, mut sink) = Cluster::with_orders(1);
    let mut acks = Acks::default();
    give(&mut sink, &mut acks, 0, 0..600, |n| ticket(u64::from(n / 200))).await;
    assert_eq!(sink.unacked(), 599, "all but the one that showed that the partition takes any");
    assert_eq!(until(&mut sink, &mut acks, |_, acks| acked(acks) == 600).await, None);
    assert_eq!(sink.unacked(), 0);
    let runs: Vec<_> =
        acks.runs().iter().map(|run| (run.transaction, run.topic, run.records, run.size)).collect();
    let expected: Vec<_> = (0..3).map(|t| (ticket(t).transaction(), orders(), 200, 200)).collect();
    assert_eq!(runs, expected);
}

#[tokio::test]
async fn a_full_queue_hands_the_ticket_back_and_takes_the_same_record_later() {
    let (cluster, bystander) = Cluster::with_orders(1);
    bystander.close();
    let mut settings = cluster.settings();
    settings.window_bytes = 256 * 10;
    settings.row_bytes = 0;
    let mut sink = cluster.sink(&settings);
    let mut acks = Acks::default();
    give(&mut sink, &mut acks, 0, 0..1, |_| ticket(0)).await;
    assert_eq!(until(&mut sink, &mut acks, |_, acks| acked(acks) == 1).await, None);
    cluster.mock.broker_down(-1).unwrap();

    let mut accepted = 1;
    let refusal = loop {
        match number(&mut sink, 0, accepted, ticket(u64::from(accepted))) {
            Ok(()) => accepted += 1,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(accepted, 1 + 11, "the window's ten and one more");
    assert_eq!(refusal.reason, RefusalReason::Full);
    assert_eq!(refusal.ticket, ticket(u64::from(accepted)));

    cluster.mock.broker_up(-1).unwrap();
    assert_eq!(until(&mut sink, &mut acks, |_, acks| acked(acks) > 1).await, None);
    number(&mut sink, 0, accepted, refusal.ticket).unwrap();
    assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
    assert_eq!(cluster.read_numbers(0), (0..=accepted).collect::<Vec<_>>());
}

#[tokio::test]
async fn no_signal_is_missed_between_polling_and_waiting() {
    let (cluster, mut sink) = Cluster::with_orders(4);
    let total = 40_000_u32;
    let mut acks = Acks::default();
    let mut next = 0;
    // Small polls leave the queue half read; waiting in between must return for the rest.
    while next < total {
        for _ in 0..97 {
            let partition = i32::try_from(next % 4).unwrap();
            if next < total && number(&mut sink, partition, next, ticket(u64::from(next))).is_ok() {
                next += 1;
            }
        }
        assert_eq!(sink.poll_acks(&mut acks, 10), None);
    }
    assert_eq!(until(&mut sink, &mut acks, |_, acks| acked(acks) == total).await, None);
    for partition in 0..4_u32 {
        let expected: Vec<_> = (partition..total).step_by(4).collect();
        assert_eq!(cluster.read_numbers(i32::try_from(partition).unwrap()), expected);
    }
}

#[tokio::test]
async fn a_waiter_that_has_never_polled_is_woken() {
    let (_cluster, mut sink) = Cluster::with_orders(1);
    number(&mut sink, 0, 0, ticket(1)).unwrap();
    let mut acks = Acks::default();
    while acks.is_empty() {
        timeout(DEADLINE, sink.wait_acks()).await.expect("in time");
        assert_eq!(sink.poll_acks(&mut acks, 1_000), None);
    }
}

#[tokio::test]
async fn one_record_at_a_time_wakes_the_waiter_every_time() {
    let (_cluster, mut sink) = Cluster::with_orders(1);
    let mut acks = Acks::default();
    for n in 0..300 {
        number(&mut sink, 0, n, ticket(u64::from(n))).unwrap();
        assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
    }
    assert_eq!(acked(&acks), 300);
}

/// One batch at a time: a real broker refuses by its sequence number what was in flight behind a
/// failed batch. The mock cluster accepts it, which another test handles.
#[tokio::test]
async fn passing_errors_are_retried_until_the_log_is_complete_and_in_order() {
    use RDKafkaRespErr as E;
    let (cluster, bystander) = Cluster::with_orders(1);
    bystander.close();
    let mut settings = cluster.settings();
    settings.properties.insert("max.in.flight.requests.per.connection".into(), "1".into());
    let mut sink = cluster.sink(&settings);
    let mut acks = Acks::default();
    for (round, error) in (0..).zip([
        E::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        E::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        E::RD_KAFKA_RESP_ERR__TRANSPORT,
        E::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
    ]) {
        cluster.mock.request_errors(RDKafkaApiKey::Produce, &[error; 2]);
        give(&mut sink, &mut acks, 0, round * 500..(round + 1) * 500, |_| ticket(1)).await;
        assert_eq!(until(&mut sink, &mut acks, |sink, _| sink.unacked() == 0).await, None);
        assert_eq!(acked(&acks), (round + 1) * 500);
    }
    assert_eq!(cluster.read_numbers(0), (0..2_000).collect::<Vec<_>>());
}
