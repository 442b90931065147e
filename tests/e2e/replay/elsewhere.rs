//! `--to-topic`, and keys that are made of several columns.

use e2e::{Fixture, SHORT_DEADLINE};
use testbed::reader::read_all;

use super::{number, replay, write};

const ROWS: i32 = 500;

#[tokio::test]
async fn all_records_go_to_another_topic_and_the_topics_of_the_rows_stay_as_they_are() {
    let fixture = Fixture::builder().start().await.unwrap();
    let session = fixture.session().await.unwrap();
    write(&fixture, &session, ROWS, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let before = fixture.seen().await.unwrap();
    let copy = format!("{}copy", fixture.mapping.topic_prefix);

    // Nothing makes the topic.
    let (exit, answer, errors) = replay(&fixture, &["--all", "--to-topic", &copy]).await;
    assert_eq!((exit, &answer["failure"]["code"]), (Some(1), &"K010".into()), "{answer:#}{errors}");
    assert_eq!((&answer["outcome"], &answer["sent"]), (&"failed".into(), &0.into()));

    fixture.kafka.create_topic(&copy, 7, &[]).await.unwrap();
    let (exit, answer, errors) = replay(&fixture, &["--all", "--to-topic", &copy]).await;
    assert_eq!(exit, Some(0), "{answer:#}{errors}");
    assert_eq!(fixture.seen().await.unwrap().len(), before.len());
    let copies = read_all(&fixture.kafka.bootstrap(), &[&copy]).await.unwrap();
    let mut numbers: Vec<i32> = copies.iter().map(number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=ROWS).collect::<Vec<_>>());
    let mut keys: Vec<_> =
        copies.iter().map(|record| (record.key.clone(), record.partition)).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 20, "a key has one partition: {keys:?}");
    assert!(keys.iter().any(|(_, partition)| *partition >= 3), "by its own count: {keys:?}");
}

#[tokio::test]
async fn a_key_that_is_made_of_columns_cannot_be_searched_by_its_value() {
    let fixture = Fixture::builder()
        .set_outbox("columns.aggregate_id", "${event_type}-${aggregate_id}")
        .prepare()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    write(&fixture, &session, 10, 2).await;
    let (exit, _, errors) = replay(&fixture, &["--key", "Changed-key-1"]).await;
    assert_eq!(exit, Some(2), "{errors}");
    assert!(
        errors.contains("is the text ${event_type}-${aggregate_id}, and no column"),
        "{errors}"
    );
    let condition = "event_type = 'Changed' and aggregate_id = 'key-1'";
    let (exit, answer, errors) = replay(&fixture, &["--where", condition]).await;
    assert_eq!((exit, &answer["sent"]), (Some(0), &5.into()), "{answer:#}{errors}");
    let seen = fixture.seen().await.unwrap();
    assert!(seen.iter().all(|record| record.key.as_deref() == Some(b"Changed-key-1")), "{seen:?}");
}
