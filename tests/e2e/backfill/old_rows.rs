//! Rows that are older than their topic keeps records.

use std::time::UNIX_EPOCH;

use super::{prepared, setup, write};

/// Kafka's own default; the brokers of the tests keep every record.
const A_WEEK: [(&str, &str); 1] = [("retention.ms", "604800000")];

/// Kafka deletes a record by the time that it carries: the row may be removed by then.
#[tokio::test]
async fn a_row_that_is_older_than_its_topic_keeps_records_carries_the_time_of_sending() {
    let (fixture, session) = prepared().await;
    fixture.kafka.set_topic(fixture.topics.first().unwrap(), &A_WEEK).await.unwrap();
    write(&fixture, &session, 8).await;
    let age = "UPDATE outbox SET created_at = now() - \
         CASE WHEN (payload->>'n')::int <= 5 THEN interval '10 days' ELSE interval '1 hour' END";
    session.batch_execute(age).await.unwrap();
    let now = || i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    let begun = now();
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("note: K023: 5 records of topic ") && said.contains("7 days"), "{said}");
    let seen = fixture.seen().await.unwrap();
    let times = seen.iter().map(|record| record.timestamp.unwrap());
    let (sent, own): (Vec<_>, Vec<_>) = times.partition(|at| *at >= begun);
    assert_eq!((sent.len(), own.len()), (5, 3), "{seen:?}");
    assert!(sent.iter().all(|at| *at <= now()), "{seen:?}");
}

#[tokio::test]
async fn a_topic_that_keeps_every_record_has_it_with_the_time_of_its_row() {
    let (fixture, session) = prepared().await;
    write(&fixture, &session, 2).await;
    session.batch_execute("UPDATE outbox SET created_at = '2020-01-01Z'").await.unwrap();
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    assert!(!said.contains("K023"), "{said}");
    let seen = fixture.seen().await.unwrap();
    let times: Vec<_> = seen.iter().map(|record| record.timestamp).collect();
    assert_eq!(times, [Some(1_577_836_800_000); 2]);
}
