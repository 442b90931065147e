//! Kafka away, and PostgreSQL killed. `OUTBOX_RETENTION_OUTAGE_SECONDS=3600` is the long form of
//! docs/testing.md.

use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE, wait_committed};
use testbed::load::Load;
use testbed::postgres::DatabaseSession;
use testbed::proxy::ProxyMode;
use tokio::time::{Instant, sleep};

use super::{
    DEADLINE, builder, check_gone_are_delivered, count, create_private_aggregates, load, started,
    wait_left, wait_swept, wait_waiting,
};

/// The checker reads Kafka by another way than the router, so it sees during the outage what is
/// there.
#[tokio::test]
async fn while_kafka_is_away_no_undelivered_row_is_removed() {
    const OUTAGES: usize = 4;
    let seconds = std::env::var("OUTBOX_RETENTION_OUTAGE_SECONDS");
    let seconds: u64 = seconds.ok().map_or(0, |seconds| seconds.parse().unwrap());
    let last_at_least = Duration::from_secs(seconds / u64::try_from(OUTAGES).unwrap());
    let (mut fixture, session) = started(builder().proxied_kafka()).await;
    create_private_aggregates(&session).await;
    let running = fixture.load(Load { events_per_second: Some(1_000), ..load() });
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
        wait_out(last_at_least, &fixture, &session).await;
        let left = count(&session, "outbox").await;
        assert!(left >= 200, "{left} rows wait for Kafka");
        check_gone_are_delivered(&fixture, &session).await;
        fixture.kafka_proxy().unwrap().set(ProxyMode::Forward).await.unwrap();
        fixture.wait_streaming().await.unwrap();
        println!("outage {outage}: {left} rows waited for Kafka");
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

/// Lets an outage last, and looks at the rows again and again.
async fn wait_out(outage: Duration, fixture: &Fixture, session: &DatabaseSession) {
    const LOOK: Duration = Duration::from_secs(30);
    let end = Instant::now() + outage;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        sleep(left.min(LOOK)).await;
        check_gone_are_delivered(fixture, session).await;
    }
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
