//! Kafka away, and PostgreSQL killed.

use e2e::{SHORT_DEADLINE, wait_committed};
use testbed::proxy::ProxyMode;

use super::{
    DEADLINE, builder, check_gone_are_delivered, count, create_private_aggregates, load, started,
    wait_left, wait_swept, wait_waiting,
};

/// The checker reads Kafka by another way than the router, so it sees during the outage what is
/// there.
#[tokio::test]
async fn while_kafka_is_away_no_undelivered_row_is_removed() {
    const OUTAGES: usize = 4;
    let (mut fixture, session) = started(builder().proxied_kafka()).await;
    create_private_aggregates(&session).await;
    let running = fixture.load(load());
    for outage in 0..OUTAGES {
        wait_committed(&running, 200).await.unwrap();
        wait_swept(&mut fixture).await;
        assert!(check_gone_are_delivered(&fixture, &session).await > 0);
        // It is older than what is delivered meanwhile, and commits when Kafka is away.
        let long = fixture.session().await.unwrap();
        long.batch_execute(
            "BEGIN; SELECT testbed.event(100001); SAVEPOINT a; SELECT testbed.event(100002); \
             RELEASE a",
        )
        .await
        .unwrap();
        wait_committed(&running, 50).await.unwrap();
        wait_swept(&mut fixture).await;
        let mode = if outage % 2 == 0 { ProxyMode::BlackHole } else { ProxyMode::HoldAnswers };
        fixture.kafka_proxy().unwrap().set(mode).await.unwrap();
        long.batch_execute("COMMIT").await.unwrap();
        wait_committed(&running, 300).await.unwrap();
        check_gone_are_delivered(&fixture, &session).await;
        wait_waiting(&mut fixture, "this router does not stream").await;
        let left = count(&session, "outbox").await;
        assert!(left >= 200, "{left} rows wait for Kafka");
        check_gone_are_delivered(&fixture, &session).await;
        fixture.kafka_proxy().unwrap().set(ProxyMode::Forward).await.unwrap();
        fixture.wait_streaming().await.unwrap();
    }
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    wait_left(&session, 0).await;
    fixture.check().await.unwrap().clean().unwrap();
    let removed = fixture.router.metric("outbox_retention_deleted_total", "").await.unwrap();
    let committed = count(&session, "testbed.committed").await;
    assert_eq!(removed.map(|rows| format!("{rows:.0}")), Some(committed.to_string()));
}

/// With asynchronous commits, a crash loses transactions, and their ids are used again.
#[tokio::test]
async fn after_a_crash_of_the_server_no_row_with_an_id_of_before_is_removed() {
    const CRASHES: usize = 3;
    let asynchronous = builder()
        .postgres("synchronous_commit", "off")
        .postgres("wal_writer_delay", "10s")
        .postgres("wal_writer_flush_after", "1GB");
    let (mut fixture, mut session) = started(asynchronous).await;
    for crash in 0..CRASHES {
        let running = fixture.load(load());
        wait_committed(&running, 300).await.unwrap();
        if crash % 2 == 0 {
            wait_swept(&mut fixture).await;
        }
        // Its writers end with it: an acknowledged commit may be lost, so they know nothing.
        fixture.postgres.kill9().await.unwrap();
        drop(running);
        fixture.postgres.start_again().await.unwrap();
        session = fixture.session().await.unwrap();
        fixture.wait_streaming().await.unwrap();
        check_gone_are_delivered(&fixture, &session).await;
    }
    let running = fixture.load(load());
    wait_committed(&running, 300).await.unwrap();
    check_gone_are_delivered(&fixture, &session).await;
    running.stop().await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    wait_left(&session, 0).await;
    check_gone_are_delivered(&fixture, &session).await;
}
