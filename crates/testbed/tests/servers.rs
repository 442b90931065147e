//! The servers of this crate are real: they survive a kill with their data, and go when dropped.
//! A server that is missing fails these tests.

use std::time::Duration;

use testbed::kafka::{self, Kafka};
use testbed::postgres::{Options, Postgres, Stop};
use testbed::wait::until_ok;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn postgres_comes_back_with_its_data_and_slots_after_kill9_and_stop() {
    let mut postgres = Postgres::start(Options::version(15)).await.unwrap();
    let session = postgres.connect().await.unwrap();
    session.batch_execute("CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)").await.unwrap();
    session
        .batch_execute("SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
        .await
        .unwrap();

    postgres.kill9().await.unwrap();
    postgres.start_again().await.unwrap();

    let session = postgres.connect().await.unwrap();
    let count: i64 = session.query_one("SELECT count(*) FROM kept", &[]).await.unwrap().get(0);
    assert_eq!(count, 1);
    let slot = postgres.slot("s").await.unwrap().unwrap();
    assert!(!slot.active);
    assert!(slot.confirmed_flush_lsn.unwrap() <= postgres.current_wal_lsn().await.unwrap());

    postgres.set(&[("wal_sender_timeout", "6s")]).await.unwrap();
    let session = postgres.connect().await.unwrap();
    let timeout: String = session.query_one("SHOW wal_sender_timeout", &[]).await.unwrap().get(0);
    assert_eq!(timeout, "6s");
    postgres.stop(Stop::Fast, Duration::from_secs(30)).await.unwrap();
    postgres.start_again().await.unwrap();
}

#[tokio::test]
async fn kafka_comes_back_with_its_topics_after_kill9() {
    let mut kafka = Kafka::start(kafka::Options::default()).await.unwrap();
    kafka.create_topic("kept", 3, &[]).await.unwrap();
    kafka.kill9().await.unwrap();
    kafka.start_again().await.unwrap();
    assert_eq!(kafka.end_offsets("kept").await.unwrap(), [0, 0, 0]);
    kafka.set_topic("kept", &[("max.message.bytes", "2000")]).await.unwrap();
    kafka.grow_topic("kept", 4).await.unwrap();
    kafka.stop().await.unwrap();
    kafka.start_again().await.unwrap();
    assert_eq!(kafka.end_offsets("kept").await.unwrap(), [0, 0, 0, 0]);
    kafka.delete_topic("kept").await.unwrap();
    assert!(kafka.end_offsets("kept").await.is_err());
}

#[tokio::test]
async fn a_cluster_places_partitions_and_survives_a_frozen_leader() {
    let mut kafka = Kafka::start(kafka::Options::default().brokers(3)).await.unwrap();
    kafka.create_topic_on("placed", &[1, 2, 3]).await.unwrap();
    kafka.broker(3).unwrap().pause().unwrap();
    kafka.create_topic_on("meanwhile", &[1, 2]).await.unwrap();
    kafka.broker(3).unwrap().resume().unwrap();
    // Whichever broker is asked: the one that was frozen has to hear of the topic first.
    let ends =
        until_ok(SOON, "the ends of the topic", async || kafka.end_offsets("meanwhile").await);
    assert_eq!(ends.await.unwrap(), [0, 0]);
    kafka.broker(2).unwrap().kill9().await.unwrap();
    kafka.start_again().await.unwrap();
    assert_eq!(kafka.end_offsets("placed").await.unwrap(), [0, 0, 0]);
}
