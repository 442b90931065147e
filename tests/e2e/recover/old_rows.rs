//! Rows that say that they are older than their topic keeps records.

use std::time::UNIX_EPOCH;

use e2e::Fixture;

use super::{drop_slot, recover, streaming, write};

#[tokio::test]
async fn a_missing_row_that_its_topic_would_delete_at_once_carries_the_time_of_sending() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    // Kafka's own default; the brokers of the tests keep every record.
    let week = [("retention.ms", "604800000")];
    fixture.kafka.set_topic(fixture.topics.first().unwrap(), &week).await.unwrap();
    write(&fixture, &session, 6).await;
    let age = "UPDATE outbox SET created_at = \
         CASE WHEN (payload->>'n')::int <= 2 THEN '2020-01-01Z' ELSE now() - interval '1 hour' END";
    session.batch_execute(age).await.unwrap();
    let begun = i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["sent"], 6, "{answer:#}");
    assert!(said.contains("2 records of topic ") && said.contains("time of sending"), "{said}");
    let seen = fixture.seen().await.unwrap();
    let sent = seen.iter().filter(|record| record.timestamp.unwrap() >= begun);
    assert_eq!((sent.count(), seen.len()), (2, 6), "{seen:?}");
    // What was sent is found again.
    drop_slot(&session).await;
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 0, "{answer:#}");
}
