//! `where` judges a polled row by its own marks.

use e2e::{Fixture, SHORT_DEADLINE};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::{polling, started, wait_none, wait_polling};

const COLUMNS: &str = "alter table outbox \
    add n bigint generated always as identity, \
    add published_at timestamptz, \
    add abandoned_at timestamptz, \
    add last_error text";

#[tokio::test]
async fn a_row_is_delivered_abandoned_or_pending_and_no_slot_is_spoken_of() {
    let builder = polling().set("on_error.bad_row", "dead_letter").set("retry.max_attempts", 1);
    let mut fixture = started(builder, COLUMNS).await;
    let session = fixture.session().await.unwrap();
    let insert = |key: &str, headers: &str| {
        format!(
            "insert into outbox (aggregate_type, aggregate_id, event_type, payload, headers) \
             values ('order', '{key}', 'Made', '{{}}', '{headers}')"
        )
    };
    // The headers of the second are no object (R009).
    session.batch_execute(&insert("good", "{}")).await.unwrap();
    session.batch_execute(&insert("bad", "[1]")).await.unwrap();
    wait_none(&session, "coalesce(published_at, abandoned_at) is null").await.unwrap();
    fixture.router.sigterm().unwrap();
    fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    session.batch_execute(&insert("late", "{}")).await.unwrap();
    for (key, words) in [
        ("good", ["acknowledged", "offset"]),
        ("bad", ["dead-lettered", "R009"]),
        ("late", ["waiting", "a worker has not sent it yet"]),
    ] {
        let query = "select id::text from outbox where aggregate_id = $1";
        let id: String = session.query_one(query, &[&key]).await.unwrap().get(0);
        let output = fixture.router.command(&["where", &id]).await.unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(words.iter().all(|word| said.contains(word)), "{key}: {said}");
        assert!(!said.contains("slot"), "{key}: {said}");
    }
}

/// What `where` prints of an id.
async fn told(fixture: &Fixture, name: &str) -> String {
    told_of(fixture, &[name]).await
}

/// What `where` prints.
async fn told_of(fixture: &Fixture, arguments: &[&str]) -> String {
    let output = fixture.router.command(&[&["where"], arguments].concat()).await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn a_row_is_found_by_its_primary_key_of_two_columns_as_by_its_id() {
    let columns = format!(
        "{COLUMNS}; alter table outbox drop constraint outbox_pkey; \
         alter table outbox add primary key (n, aggregate_id)"
    );
    let fixture = started(polling(), &columns).await;
    let session = fixture.session().await.unwrap();
    let insert = "insert into outbox (aggregate_type, aggregate_id, event_type, payload) \
                  values ('order', 'a,b', 'Made', '{}') returning id::text, n::text";
    let row = session.query_one(insert, &[]).await.unwrap();
    let (id, n): (String, String) = (row.get(0), row.get(1));
    wait_none(&session, "published_at is null").await.unwrap();
    for name in [id.clone(), format!("{n},a,b")] {
        let told = told(&fixture, &name).await;
        assert!(told.starts_with(&format!("event      {id}\nstate      acknowledged")), "{told}");
    }
}

/// As where another table, or another program, writes to the topic with ids of its own.
#[tokio::test]
async fn a_record_with_a_rows_id_and_another_key_is_not_taken_for_the_rows_own() {
    let mut fixture = started(polling().partitions(1), COLUMNS).await;
    let session = fixture.session().await.unwrap();
    fixture.router.sigterm().unwrap();
    fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    let insert = "insert into outbox (aggregate_type, aggregate_id, event_type, payload) \
                  values ('order', 'a', 'Made', '{}') returning id::text";
    let id: String = session.query_one(insert, &[]).await.unwrap().get(0);
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", fixture.kafka.bootstrap()).create().unwrap();
    let headers = OwnedHeaders::new().insert(Header { key: "id", value: Some(&id) });
    let record = BaseRecord::to(&fixture.topics[0]).key("another").payload("{}").headers(headers);
    producer.send(record).unwrap();
    producer.flush(SHORT_DEADLINE).unwrap();
    let pending = told(&fixture, &id).await;
    assert!(pending.contains("state      waiting: pending: a worker has not sent"), "{pending}");

    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    wait_none(&session, "published_at is null").await.unwrap();
    let sent = told(&fixture, &id).await;
    assert!(sent.contains("state      acknowledged: at offset 1 of "), "{sent}");

    // It was sent with the key that the row had then.
    session.batch_execute("update outbox set aggregate_id = 'b'").await.unwrap();
    let changed = told(&fixture, &id).await;
    assert!(changed.contains("state      acknowledged: at offset 1 of "), "{changed}");
    assert!(changed.contains("under another key than it would get now"), "{changed}");

    // Nothing but --key says the key of a row that is deleted.
    session.batch_execute("delete from outbox").await.unwrap();
    let deleted = told(&fixture, &id).await;
    assert!(deleted.contains("which alone says whose it is, is at offset 0 of "), "{deleted}");
    let of_key = told_of(&fixture, &[&id, "--key", "a"]).await;
    assert!(of_key.contains("a record with its id and the key a is at offset 1 of "), "{of_key}");
}
