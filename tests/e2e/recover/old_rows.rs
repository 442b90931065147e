//! Rows that say that they are older than their topic keeps records.

use std::time::UNIX_EPOCH;

use e2e::Fixture;

use super::{drop_slot, recover, streaming, write};
use crate::gaps::away::restored::older_copy;

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

/// A row that is written again gets the id of the lost one, if the id is made from it: the record
/// in Kafka is of the row that the server has lost.
#[tokio::test]
async fn an_id_that_is_made_from_its_row_is_not_compared_behind_a_restore() {
    let (fixture, _) = streaming(Fixture::builder().track_commits()).await;
    let (mut fixture, _) = older_copy(fixture).await.put_back();
    fixture.postgres.start_again().await.unwrap();
    let session = fixture.session().await.unwrap();
    write(&fixture, &session, 3).await;
    let compared = ["--dry-run", "--ids-unique", "--since", "2000-01-01Z", "--drop-slot"];
    let dry = async || recover(&fixture, &compared).await;
    let (exit, answer, said) = dry().await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    let made = "UPDATE outbox SET id = '6ba7b810-9dad-51d1-80b4-00c04fd430c8' \
                WHERE id = (SELECT id FROM outbox ORDER BY created_at DESC LIMIT 1)";
    session.batch_execute(made).await.unwrap();
    let (exit, answer, said) = dry().await;
    assert_eq!(exit, Some(1), "{answer:#}{said}");
    assert!(said.contains("version 3, 5 or 8"), "{said}");
}
