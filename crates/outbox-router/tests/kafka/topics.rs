//! What a real broker says of topics in use.

use outbox_router::codes::hint;
use outbox_router::kafka::{
    Identity, KafkaSettings, KafkaSink, TopicClient, TopicDescription, TopicLimits, TopicLookup,
    TopicReading, open,
};
use relay::{
    Acks, Code, Headers, Record, RecordSink, Refusal, RefusalReason, RowHeaders, Ticket, Timestamp,
    TopicId, TopicName,
};
use testbed::wait::eventually;
use tokio::time::timeout;

use crate::broker::{DEADLINE, blocking, settings, shared, topic_name};

async fn read_topics(topic_client: &TopicClient, names: &[TopicName]) -> Vec<TopicReading> {
    let (topic_client, names) = (topic_client.clone(), names.to_vec());
    blocking(move || topic_client.read_topics(&names)).await.unwrap()
}

/// Between two looks at it: nobody ever saw it gone.
#[tokio::test]
async fn a_topic_that_was_deleted_and_recreated_is_another_one() {
    let kafka = shared().await;
    let settings = settings(&kafka);
    let names = ["replaced", "kept"].map(topic_name);
    let ids = [0, 1].map(|index| TopicId::from_index(index).unwrap());
    let mut sink = open(&settings).unwrap();
    for (id, name) in ids.iter().zip(&names) {
        kafka.create_topic(name.as_str(), 2, &[]).await.unwrap();
        sink.bind_topic(*id, name, TopicLimits::default());
    }
    let topic_client = sink.topic_client(&settings);
    for seen in [read_topics(&topic_client, &names).await, read_topics(&topic_client, &names).await]
    {
        for (id, seen) in ids.iter().zip(seen) {
            assert_eq!(seen.lookup, TopicLookup::Partitions(2.try_into().unwrap()));
            assert_eq!(sink.identify_topic(*id, &seen.uuid.unwrap()), Identity::Same);
        }
    }

    kafka.delete_topic("replaced").await.unwrap();
    kafka.create_topic("replaced", 2, &[]).await.unwrap();
    let seen = read_topics(&topic_client, &names).await;
    assert_eq!(sink.identify_topic(ids[0], seen[0].uuid.as_ref().unwrap()), Identity::Another);
    assert_eq!(sink.identify_topic(ids[1], seen[1].uuid.as_ref().unwrap()), Identity::Same);

    kafka.delete_topic("replaced").await.unwrap();
    let seen = read_topics(&topic_client, &names).await;
    assert_eq!(seen[0], TopicReading { lookup: TopicLookup::Gone, uuid: None });
    assert!(seen[1].uuid.is_some(), "one that is gone hides no other");
    drop(topic_client);
    blocking(move || sink.close()).await;
}

async fn look_up(topic_client: &TopicClient, name: &TopicName) -> TopicDescription {
    let (topic_client, name) = (topic_client.clone(), name.clone());
    blocking(move || topic_client.look_up(&name)).await.unwrap()
}

fn give(sink: &mut KafkaSink, topic: TopicId) -> Result<(), Refusal> {
    give_at(sink, topic, Record::NOW)
}

/// Produces a record of 400 bytes, with a ticket that says so.
pub(crate) fn give_at(
    sink: &mut KafkaSink,
    topic: TopicId,
    timestamp_ms: i64,
) -> Result<(), Refusal> {
    let row = RowHeaders::new();
    let record = Record {
        topic,
        partition: 0,
        key: b"key",
        value: Some(&[b'v'; 400]),
        headers: Headers::new(&[], &row),
        timestamp_ms,
    };
    let units = u64::try_from(record.held_bytes().div_ceil(64)).unwrap();
    sink.produce(&record, Ticket::from_opaque(7 << 56 | 1 << 20 | units))
}

/// Polls until the acknowledgements are so many.
pub(crate) async fn acked(sink: &mut KafkaSink, acks: &mut Acks, count: u32) {
    let so_far = |acks: &Acks| acks.runs().iter().map(|run| run.records).sum::<u32>();
    loop {
        assert_eq!(sink.poll_acks(acks, 1_000), None);
        if so_far(acks) >= count {
            return;
        }
        timeout(DEADLINE, sink.wait_acks()).await.expect("in time");
    }
}

/// The broker refuses a batch above the topic's limit as a whole.
#[tokio::test]
async fn a_topic_of_two_kilobytes_takes_what_a_sink_sends_beside_others() {
    let kafka = shared().await;
    let settings = settings(&kafka);
    let names = ["small", "large"].map(topic_name);
    let [small, large] = [0, 1].map(|index| TopicId::from_index(index).unwrap());
    kafka.create_topic("small", 1, &[("max.message.bytes", "2000")]).await.unwrap();
    kafka.create_topic("large", 1, &[]).await.unwrap();
    let mut sink = open(&settings).unwrap();
    let topic_client = sink.topic_client(&settings);
    for (id, name) in [small, large].into_iter().zip(&names) {
        sink.bind_topic(id, name, look_up(&topic_client, name).await.limits());
    }
    assert!(sink.limits_in_flight(small) && !sink.limits_in_flight(large));

    let mut acks = Acks::default();
    let mut given = 0;
    for n in 0..1_000 {
        let topic = if n % 5 == 0 { small } else { large };
        while let Err(refusal) = give(&mut sink, topic) {
            assert_eq!(refusal.reason, RefusalReason::PartitionWaits);
            let so_far = acks.runs().iter().map(|run| run.records).sum::<u32>();
            acked(&mut sink, &mut acks, so_far + 1).await;
        }
        given += 1;
    }
    acked(&mut sink, &mut acks, given).await;
    assert_eq!(kafka.end_offsets("small").await.unwrap(), [200]);
    assert_eq!(kafka.end_offsets("large").await.unwrap(), [800]);

    kafka.set_topic("small", &[("max.message.bytes", "1048588")]).await.unwrap();
    let raised = eventually(DEADLINE, "the raised limit", async || {
        let limits = look_up(&topic_client, &names[0]).await.limits();
        Ok(limits.max_message_bytes.is_some_and(|limit| limit > 2_000).then_some(limits))
    });
    sink.bind_topic(small, &names[0], raised.await.unwrap());
    assert!(!sink.limits_in_flight(small));
    drop(topic_client);
    blocking(move || sink.close()).await;
}

/// A record of before an outage that was longer than the topic allows: refused for ever, unless it
/// carries another time.
#[tokio::test]
async fn a_topic_that_refuses_old_records_is_reported_before_it_does() {
    let kafka = shared().await;
    let settings = settings(&kafka);
    let name = topic_name("young");
    let id = TopicId::from_index(0).unwrap();
    let limit = [("message.timestamp.before.max.ms", "60000")];
    kafka.create_topic("young", 1, &limit).await.unwrap();
    let mut sink = open(&settings).unwrap();
    let found = look_up(&sink.topic_client(&settings), &name).await;
    let (limits, caution) = (found.limits(), found.caution.unwrap());
    assert_eq!(caution.code, Code::TopicTimestamps, "{caution}");
    assert!(caution.message.contains("message.timestamp.before.max.ms=60000"), "{caution}");
    let now = KafkaSettings { timestamp: Timestamp::Now, ..settings.clone() };
    assert_eq!(look_up(&sink.topic_client(&now), &name).await.caution, None);
    sink.bind_topic(id, &name, limits);

    let mut acks = Acks::default();
    give(&mut sink, id).unwrap();
    acked(&mut sink, &mut acks, 1).await;
    give_at(&mut sink, id, 1_700_000_000_000).unwrap();
    let trouble = loop {
        if let Some(trouble) = sink.poll_acks(&mut acks, 1_000) {
            break trouble;
        }
        timeout(DEADLINE, sink.wait_acks()).await.expect("in time");
    };
    assert_eq!(trouble.failure.code, Code::RecordRefused, "{}", trouble.failure);
    let remedy = hint(&trouble.failure).unwrap();
    assert!(remedy.contains("timestamp = \"now\""), "{remedy}");
    blocking(move || sink.close()).await;

    kafka.create_topic("plain", 1, &[]).await.unwrap();
    let sink = open(&settings).unwrap();
    let found = look_up(&sink.topic_client(&settings), &topic_name("plain")).await;
    assert_eq!(found.caution, None, "Kafka's own defaults are no reason to warn");
}
