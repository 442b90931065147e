//! The way from a poller, as docs/from-polling.md describes it: writers go on all the time.

use std::time::Duration;

use e2e::{Fixture, LONG_DEADLINE, SHORT_DEADLINE, wait_committed};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use testbed::postgres::DatabaseSession;
use tokio::time::sleep;

use super::{load, prepared, setup};

/// A round of a poller: produces what is not marked, waits until Kafka has it, and marks it.
async fn poll(fixture: &Fixture, session: &DatabaseSession, producer: &BaseProducer) -> usize {
    let sql = "SELECT id::text, aggregate_id, coalesce(payload::text, '') FROM outbox \
               WHERE published_at IS NULL ORDER BY created_at LIMIT 500";
    let rows = session.query(sql, &[]).await.unwrap();
    let topic = fixture.topics.first().unwrap();
    let mut ids = Vec::with_capacity(rows.len());
    for row in &rows {
        let (id, key, value): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let headers = OwnedHeaders::new().insert(Header { key: "id", value: Some(&id) });
        let record = BaseRecord::to(topic).key(&key).payload(&value).headers(headers);
        producer.send(record).map_err(|(error, _)| error).unwrap();
        ids.push(id);
    }
    producer.flush(SHORT_DEADLINE).unwrap();
    let mark = "UPDATE outbox SET published_at = now() WHERE id::text = ANY ($1)";
    session.execute(mark, &[&ids]).await.unwrap();
    rows.len()
}

#[tokio::test]
async fn a_poller_is_replaced_while_writers_go_on_and_each_row_comes_once() {
    let (mut fixture, session) = prepared().await;
    session.batch_execute("ALTER TABLE outbox ADD published_at timestamptz").await.unwrap();
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", fixture.kafka.bootstrap()).create().unwrap();
    let running = fixture.load(load());
    let mut polled = 0;
    while polled < 500 {
        polled += poll(&fixture, &session, &producer).await;
        sleep(Duration::from_millis(20)).await;
    }
    // It is stopped; rows wait for nobody.
    wait_committed(&running, 500).await.unwrap();

    let (exit, said) = setup(&fixture, &["--backfill", "--where", "published_at is null"]).await;
    assert_eq!(exit, Some(0), "{said}");
    wait_committed(&running, 200).await.unwrap();
    fixture.restart().await.unwrap();
    wait_committed(&running, 200).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(LONG_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
}
