//! A state topic that was read before is read on, as long as it is the same log.

use std::time::Duration;

use outbox_router::kafka::{KafkaSettings, StateLog, open};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions},
    client::DefaultClientContext,
};
use relay::StateTopicRecord;
use testbed::wait::eventually;

use crate::{
    broker::{DEADLINE, blocking, settings, shared, topic_name},
    state::{offset_of_first_record, pairs, put, read, with_quickly_compacted},
};

/// Reads on from `known`, to which a record is added that no topic holds: whether it is still there
/// tells a topic that was read on from one that was read from its beginning.
async fn read_on(settings: &KafkaSettings, topic: &str, known: &StateLog) -> (StateLog, ReadFrom) {
    let mut known = known.clone();
    known
        .records
        .insert(0, StateTopicRecord { key: b"mark".into(), value: b"".into(), offset: -1 });
    let (own, name) = (settings.clone(), topic_name(topic));
    let mut found = blocking(move || {
        let sink = open(&own).unwrap();
        sink.state_topic(&own, name).read_on(b"", &known).unwrap()
    })
    .await;
    let before = found.records.len();
    found.records.retain(|record| record.key != b"mark");
    let from = if found.records.len() < before { ReadFrom::LastKnown } else { ReadFrom::Beginning };
    (found, from)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadFrom {
    Beginning,
    LastKnown,
}

#[tokio::test]
async fn what_was_written_since_the_last_reading_is_read_and_nothing_else() {
    let kafka = shared().await;
    let settings = settings(&kafka);
    let topic = "on.state";
    put(&settings, topic, &[("a", Some("1")), ("b", Some("2"))]).await;
    let mut known = read(&settings, topic, "").await;
    let steps: [&[_]; 3] = [
        &[("b", None), ("c", Some("3")), ("a", Some("4"))],
        &[],
        &[("c", None), ("d", Some("5")), ("c", Some("6")), ("d", None)],
    ];
    for written in steps {
        put(&settings, topic, written).await;
        let (found, from) = read_on(&settings, topic, &known).await;
        assert_eq!(from, ReadFrom::LastKnown);
        assert_eq!(found, read(&settings, topic, "").await);
        known = found;
    }
    assert_eq!(pairs(&known), [("a".into(), "4".into()), ("c".into(), "6".into())]);
}

#[tokio::test]
async fn a_topic_that_was_empty_is_read_from_its_beginning() {
    let kafka = shared().await;
    let settings = settings(&kafka);
    kafka.create_topic("empty.state", 1, &[("cleanup.policy", "compact")]).await.unwrap();
    let known = read(&settings, "empty.state", "").await;
    put(&settings, "empty.state", &[("a", Some("1"))]).await;
    let (found, from) = read_on(&settings, "empty.state", &known).await;
    assert_eq!((from, found.end), (ReadFrom::Beginning, 1));
}

/// Whether it is shorter than it was, as long, or has grown past that.
#[tokio::test]
async fn a_recreated_topic_is_read_from_its_beginning() {
    let kafka = shared().await;
    let settings = settings(&kafka);
    let topic = "again.state";
    let compact = [("cleanup.policy", "compact")];
    kafka.create_topic(topic, 1, &compact).await.unwrap();
    put(&settings, topic, &[("a", Some("1")), ("b", Some("2"))]).await;
    let known = read(&settings, topic, "").await;
    for records in [
        &[("b", Some("2"))][..],
        &[("b", Some("2")), ("b", Some("2"))],
        &[("b", Some("2")), ("b", Some("2")), ("c", Some("3"))],
    ] {
        kafka.delete_topic(topic).await.unwrap();
        kafka.create_topic(topic, 1, &compact).await.unwrap();
        put(&settings, topic, records).await;
        let (found, from) = read_on(&settings, topic, &known).await;
        assert_eq!(from, ReadFrom::Beginning, "{} records", records.len());
        assert_eq!(found, read(&settings, topic, "").await);
        assert!(!found.records.iter().any(|record| record.key == b"a"));
    }
}

/// What was deleted from the beginning is among what is known.
#[tokio::test]
async fn a_topic_whose_first_records_were_deleted_is_read_from_its_beginning() {
    let kafka = shared().await;
    let settings = settings(&kafka);
    let topic = "deleted.state";
    kafka.create_topic(topic, 1, &[("cleanup.policy", "compact")]).await.unwrap();
    put(&settings, topic, &[("a", Some("1")), ("b", Some("2"))]).await;
    let known = read(&settings, topic, "").await;
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", kafka.bootstrap()).create().unwrap();
    let mut before = TopicPartitionList::new();
    before.add_partition_offset(topic, 0, Offset::Offset(1)).unwrap();
    // Of a topic that is only compacted no record can be deleted so.
    kafka.set_topic(topic, &[("cleanup.policy", "compact,delete")]).await.unwrap();
    eventually(DEADLINE, "the deletion", async || {
        let deleted = admin.delete_records(&before, &AdminOptions::new()).await?;
        Ok(deleted.elements().iter().all(|element| element.error().is_ok()).then_some(()))
    })
    .await
    .unwrap();
    let (found, from) = read_on(&settings, topic, &known).await;
    assert_eq!((from, found.begin), (ReadFrom::Beginning, 1));
    assert_eq!(pairs(&found), [("b".into(), "2".into())]);
}

/// The deletion of a key that is known, taken away by compaction before it was read.
#[tokio::test]
async fn a_deletion_that_compaction_has_taken_away_is_not_missed() {
    let topic = "holes.state";
    let kafka = with_quickly_compacted(topic).await;
    let settings = settings(&kafka);
    put(&settings, topic, &[("a", Some("1")), ("z", Some("1"))]).await;
    let known = read(&settings, topic, "").await;
    put(&settings, topic, &[("a", None)]).await;
    // A segment is closed by the first record that comes when it is old enough.
    eventually(DEADLINE, "compaction of the deletion", async || {
        put(&settings, topic, &[("z", Some("2"))]).await;
        tokio::time::sleep(Duration::from_millis(150)).await;
        Ok((offset_of_first_record(&kafka, topic).await > 2).then_some(()))
    })
    .await
    .unwrap();
    let (found, from) = read_on(&settings, topic, &known).await;
    assert_eq!(from, ReadFrom::Beginning);
    assert_eq!(pairs(&found), [("z".into(), "2".into())]);
}
