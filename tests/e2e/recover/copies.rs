//! Records with the id of a missing row that are not its record: copies that the product or a
//! consumer has made, and the record of another row.

use std::collections::HashSet;

use e2e::{Fixture, SHORT_DEADLINE};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use testbed::kafka::KafkaOptions;
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use testbed::reader::ConsumedRecord;

use super::{drop_slot, recover, streaming, write};

/// The ids of the rows that were written last.
async fn last_ids(session: &DatabaseSession, rows: usize) -> Vec<String> {
    let ids = format!("SELECT id::text FROM outbox ORDER BY created_at DESC, id LIMIT {rows}");
    session.query(&ids, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// `replay` of these rows.
async fn replay(fixture: &Fixture, ids: &[String], more: &[&str]) {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let condition = format!("id IN ('{}')", ids.join("', '"));
    let line = ["replay", "--yes", "--json", "--by", "ann", "--where", &condition];
    let line = [&line, more, &["--admin-url", &url]].concat();
    let line: Vec<String> = line.into_iter().map(str::to_owned).collect();
    let (exit, answer, said) = fixture.json_command(&line).await.unwrap();
    assert_eq!((exit, answer.get("sent")), (Some(0), Some(&ids.len().into())), "{answer:#}{said}");
}

/// Writes a record of this id to a topic of a consumer's, as one does that keeps all headers.
async fn copy_by_consumer(fixture: &Fixture, topic: &str, id: &str) {
    fixture.kafka.create_topic(topic, 1, &[]).await.unwrap();
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", fixture.kafka.bootstrap()).create().unwrap();
    let headers = OwnedHeaders::new().insert(Header { key: "id", value: Some(id) });
    let record = BaseRecord::<str, str>::to(topic).key("key").payload("{}").headers(headers);
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(SHORT_DEADLINE).unwrap();
}

/// The records of the rows, without those of `replay`.
fn of_stream(seen: &[ConsumedRecord]) -> Vec<&str> {
    let own = seen.iter().filter(|record| record.header("outbox_replay").is_none());
    own.filter_map(|record| record.header("id")).collect()
}

/// Every topic could be one of the router's.
#[tokio::test]
async fn neither_a_replayed_copy_nor_a_topic_of_a_consumer_stands_for_a_missing_row() {
    let builder = Fixture::builder()
        .own_kafka(KafkaOptions::default())
        .set_outbox("topic", "${aggregate_type}");
    let (mut fixture, session) = streaming(builder).await;
    let own = fixture.schema.types.first().unwrap().clone();
    fixture.kafka.create_topic(&own, 3, &[]).await.unwrap();
    fixture.topics = vec![own];
    write(&fixture, &session, 5).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 9).await;
    let missing = last_ids(&session, 9).await;
    fixture.kafka.create_topic("for-audit", 1, &[]).await.unwrap();
    replay(&fixture, &missing[..3], &["--to-topic", "for-audit"]).await;
    replay(&fixture, &missing[3..5], &[]).await;
    copy_by_consumer(&fixture, "order-retry", &missing[5]).await;
    copy_by_consumer(&fixture, "order-dead-letters", &missing[6]).await;

    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    let table = &answer["tables"][0];
    let found = ["missing", "elsewhere", "sent"].map(|figure| table[figure].as_u64());
    // What `replay` has sent is marked, and nothing to compare with.
    assert_eq!(found, [9, 2, 9].map(Some), "{answer:#}{said}");
    assert_eq!(answer["closed"], true, "{answer:#}");
    let seen = fixture.seen().await.unwrap();
    let ids = of_stream(&seen);
    let different: HashSet<&str> = ids.iter().copied().collect();
    assert_eq!((ids.len(), different.len()), (14, 14), "each row has one record of its own");
}

/// The id of a request, which a partitioned table can only have unique together with the time.
#[tokio::test]
async fn the_record_of_another_row_with_the_id_does_not_stand_for_a_missing_row() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    let key = "ALTER TABLE outbox DROP CONSTRAINT outbox_pkey, ADD PRIMARY KEY (id, created_at)";
    session.batch_execute(key).await.unwrap();
    write(&fixture, &session, 5).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    // Two differ in nothing but the time, and two in their content.
    let again = "INSERT INTO outbox \
           (id, aggregate_type, aggregate_id, event_type, payload, created_at) \
         SELECT id, aggregate_type, aggregate_id, \
           CASE WHEN (payload->>'n')::int < 3 THEN event_type ELSE 'ChangedAgain' END, \
           payload, created_at + interval '1 s' FROM outbox WHERE (payload->>'n')::int < 5";
    session.batch_execute(again).await.unwrap();
    write(&fixture, &session, 3).await;
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(1), "{answer:#}{said}");
    assert!(said.contains("no unique index of public.outbox is on its id alone"), "{said}");
    assert_eq!(fixture.seen().await.unwrap().len(), 5);
    let (exit, answer, said) = recover(&fixture, &["--all"]).await;
    assert_eq!((exit, &answer["closed"]), (Some(0), &true.into()), "{answer:#}{said}");
    let seen = fixture.seen().await.unwrap();
    let rows = "SELECT id::text, count(*) FROM outbox GROUP BY id";
    for row in session.query(rows, &[]).await.unwrap() {
        let (id, rows): (&str, i64) = (row.get(0), row.get(1));
        let records = seen.iter().filter(|record| record.header("id") == Some(id)).count();
        assert!(i64::try_from(records).unwrap() >= rows, "{id}: {records} records of {rows} rows");
    }
    // The five that were delivered come again.
    assert_eq!((seen.len(), &answer["tables"][0]["sent"]), (17, &12.into()), "{answer:#}{said}");
}
