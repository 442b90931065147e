//! The servers of this crate are real: they survive a kill with their data, and go when dropped.
//! A server that is missing fails these tests.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use testbed::kafka::{KafkaCluster, KafkaOptions};
use testbed::postgres::{PostgresOptions, PostgresServer, ShutdownMode};
use testbed::wait::until_ok;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn postgresql_keeps_data_and_slots_through_kill9_and_stop() {
    let mut postgres = PostgresServer::start(PostgresOptions::version(15)).await.unwrap();
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
    postgres.stop(ShutdownMode::Fast, Duration::from_secs(30)).await.unwrap();
    postgres.start_again().await.unwrap();
}

/// The kernel has a limited number of shared memory segments (`kernel.shmmni`, 4096), and a
/// postmaster that was killed leaves its own behind: after enough tests no server on the machine
/// could start any more.
#[tokio::test]
async fn a_dropped_postgresql_server_leaves_no_shared_memory() {
    let mut killed = PostgresServer::start(PostgresOptions::version(15)).await.unwrap();
    let running = PostgresServer::start(PostgresOptions::version(15)).await.unwrap();
    let session = running.connect().await.unwrap();
    let row = session.query_one("SHOW dynamic_shared_memory_type", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "mmap", "files outside of the data directory stay behind");

    let segments = [&killed, &running].map(|postgres| segment_of(&postgres.data_dir()).unwrap());
    assert!(segments.iter().all(|segment| exists(segment).unwrap()), "{segments:?}");
    killed.kill9().await.unwrap();
    drop(running);
    assert!(!segments.iter().any(|segment| exists(segment).unwrap()), "{segments:?}");
}

/// The identifier of a server's shared memory segment, from its lock file.
fn segment_of(data_dir: &Path) -> anyhow::Result<String> {
    let lock = std::fs::read_to_string(data_dir.join("postmaster.pid"))?;
    let segment = lock.lines().nth(6).and_then(|line| line.split_whitespace().nth(1));
    Ok(segment.context("the lock file tells no segment")?.to_owned())
}

fn exists(segment: &str) -> anyhow::Result<bool> {
    let segments = std::fs::read_to_string("/proc/sysvipc/shm")?;
    Ok(segments.lines().any(|line| line.split_whitespace().nth(1) == Some(segment)))
}

#[tokio::test]
async fn kafka_keeps_its_topics_through_kill9() {
    let mut kafka = KafkaCluster::start(KafkaOptions::default()).await.unwrap();
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
async fn partitions_get_the_chosen_leaders_and_the_cluster_survives_a_frozen_one() {
    let mut kafka = KafkaCluster::start(KafkaOptions::default().brokers(3)).await.unwrap();
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
