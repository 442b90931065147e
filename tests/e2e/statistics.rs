//! librdkafka's statistics in the metrics of a running router, with `kafka.statistics` and without.

use e2e::{Fixture, SHORT_DEADLINE, create_event_function};
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;

async fn write(fixture: &Fixture, session: &DatabaseSession) {
    let sql = "SELECT testbed.event(1 + g % 5) FROM generate_series(1, 50) g";
    session.batch_execute(sql).await.unwrap();
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
}

/// The sum of the series of this name, and how many there are.
async fn sum(fixture: &Fixture, name: &str) -> (f64, usize) {
    let page = fixture.router.get("/metrics").await.unwrap().body;
    let named = page.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let values = named.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap());
    values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1))
}

#[tokio::test]
async fn the_figures_of_each_broker_are_in_the_metrics_and_move() {
    let fixture = Fixture::builder().set("kafka.statistics", "1s").start().await.unwrap();
    let session = fixture.session().await.unwrap();
    create_event_function(&session).await.unwrap();
    write(&fixture, &session).await;
    let sent = "outbox_kafka_broker_requests_total";
    let came = async || Ok((sum(&fixture, sent).await.0 > 0.0).then_some(()));
    eventually(SHORT_DEADLINE, "statistics come", came).await.unwrap();
    let (_, brokers) = sum(&fixture, "outbox_kafka_broker_info").await;
    assert!(brokers >= 1);
    assert_eq!(sum(&fixture, "outbox_kafka_broker_state").await.1, 4 * brokers);
    assert_eq!(sum(&fixture, "outbox_kafka_statistics_interval_seconds").await, (1.0, 1));

    let time = "outbox_kafka_statistics_timestamp_seconds";
    let ((before, _), (first, _)) = (sum(&fixture, sent).await, sum(&fixture, time).await);
    write(&fixture, &session).await;
    let moved = async || {
        let (requests, time) = (sum(&fixture, sent).await.0, sum(&fixture, time).await.0);
        Ok((requests > before && time > first).then_some(()))
    };
    eventually(SHORT_DEADLINE, "the figures move", moved).await.unwrap();
}

#[tokio::test]
async fn without_the_key_there_is_no_series_of_a_broker() {
    let fixture = Fixture::builder().start().await.unwrap();
    let session = fixture.session().await.unwrap();
    create_event_function(&session).await.unwrap();
    write(&fixture, &session).await;
    let page = fixture.router.get("/metrics").await.unwrap().body;
    assert!(page.contains("\noutbox_state{") && !page.contains("outbox_kafka_"), "{page}");
}
