//! What cannot be answered says why.

use e2e::{Fixture, ROLE, SHORT_DEADLINE, SLOT};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::{insert, where_is};

#[tokio::test]
async fn what_is_typed_wrong_or_may_not_be_read_is_named() {
    let fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let id = insert(&session, "order", "a").await;
    let why = "is uuid, and that is none: type one as outbox-router tap shows it";
    for typed in ["no uuid", "'; drop table outbox; --", ""] {
        let answer = where_is(&fixture, &[typed]).await;
        assert_eq!(answer.exit, Some(2), "{}", answer.errors);
        assert!(answer.errors.contains(why), "{}", answer.errors);
    }
    let answer = where_is(&fixture, &[&id, "--since", "tomorrowish"]).await;
    assert_eq!(answer.exit, Some(2), "{}", answer.errors);
    assert!(answer.errors.contains("--since: "), "{}", answer.errors);
    let answer = where_is(&fixture, &[&id, "--table", "public.other"]).await;
    assert_eq!(answer.exit, Some(2), "{}", answer.errors);
    assert!(answer.errors.contains("there are public.outbox"), "{}", answer.errors);

    // The router's own role reads no table.
    let output = fixture.router.command(&["where", &id]).await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let grant = format!("grant select on table \"public\".\"outbox\" to \"{ROLE}\"");
    assert!(errors.contains(&grant) && errors.contains("--admin-url"), "{errors}");
}

#[tokio::test]
async fn a_slot_or_a_topic_that_is_missing_is_the_answer() {
    let fixture = Fixture::builder().set("kafka.state_topic", "").prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let id = insert(&session, "missing", "a").await;
    session.batch_execute(&format!("SELECT pg_drop_replication_slot('{SLOT}')")).await.unwrap();
    let answer = where_is(&fixture, &[&id]).await;
    answer.expect("waiting", "the slot outbox_router does not exist");
    assert_eq!(answer.text("code"), "P010");
    let topic = format!("{}missing", fixture.mapping.topic_prefix);
    assert_eq!(answer.text("topic"), topic, "{:#}", answer.json);
    assert!(answer.json["partition"].is_null(), "{:#}", answer.json);
}

#[tokio::test]
async fn a_large_table_without_an_index_is_read_with_a_word_about_the_index() {
    let fixture = Fixture::builder().start().await.unwrap();
    let session = fixture.session().await.unwrap();
    let id = insert(&session, "order", "a").await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    // Rows that no router reads: they are not published.
    session
        .batch_execute(
            "ALTER TABLE outbox DROP CONSTRAINT outbox_pkey; \
             ALTER TABLE outbox SET (autovacuum_enabled = off); \
             CREATE TABLE unpublished (LIKE outbox INCLUDING DEFAULTS); \
             INSERT INTO unpublished (aggregate_type, aggregate_id, event_type, payload) \
             SELECT 'order', 'x', repeat('x', 1500), '{}' FROM generate_series(1, 50000); \
             INSERT INTO unpublished SELECT * FROM outbox; \
             ALTER TABLE outbox RENAME TO small; ALTER TABLE unpublished RENAME TO outbox",
        )
        .await
        .unwrap();
    let answer = where_is(&fixture, &[&id]).await;
    answer.expect("acknowledged", "at offset ");
    let advice = "create index concurrently on \"public\".\"outbox\" (\"id\")";
    assert!(answer.errors.contains(advice), "{}", answer.errors);
}

/// A transaction of another producer that is open hides what comes after it from consumers that
/// read what is committed; so that a record is not found there says nothing.
#[tokio::test]
async fn a_record_behind_an_open_transaction_is_not_said_to_be_missing() {
    let fixture = Fixture::builder().partitions(1).start().await.unwrap();
    let session = fixture.session().await.unwrap();
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", fixture.kafka.bootstrap())
        .set("transactional.id", format!("{}where", fixture.mapping.topic_prefix))
        .create()
        .unwrap();
    producer.init_transactions(SHORT_DEADLINE).unwrap();
    producer.begin_transaction().unwrap();
    let record = BaseRecord::<(), str>::to(&fixture.topics[0]).payload("foreign");
    producer.send(record).unwrap();
    producer.flush(SHORT_DEADLINE).unwrap();
    let id = insert(&session, "order", "a").await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let answer = where_is(&fixture, &[&id]).await;
    answer.expect("unknown", "a transaction of another producer is open");
    producer.abort_transaction(SHORT_DEADLINE).unwrap();
    let answer = where_is(&fixture, &[&id]).await;
    answer.expect("acknowledged", "at offset ");
}
