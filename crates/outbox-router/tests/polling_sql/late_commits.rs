//! Rows are found by their marks: none is passed over whose transaction commits late.

use std::{collections::BTreeSet, time::Duration};

use tokio::task::JoinSet;

use crate::fixture::{Fixture, default_table, id, polling};

const WRITERS: usize = 30;
const ROWS: usize = 40;

#[tokio::test]
async fn rows_of_thirty_writers_with_think_time_are_read_once_each_and_in_their_order() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    let mut worker = fixture.worker(polling()).await;
    fixture.make_indexes(&worker).await;
    worker.database.describe(crate::fixture::TABLE).await.unwrap();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let session = fixture.session().await;
        writers.spawn(async move {
            for row in 0..ROWS {
                // Numbers of the sequence are taken in another order than transactions commit.
                let insert = format!(
                    "begin; insert into outbox (aggregate_id, payload) \
                     values ('{writer}', '{{\"n\": {row}}}')"
                );
                session.batch_execute(&insert).await.unwrap();
                let think = (writer * 7 + row * 13) % 40;
                tokio::time::sleep(Duration::from_millis(think.try_into().unwrap())).await;
                session.batch_execute("commit").await.unwrap();
            }
        });
    }
    let mut seen = Vec::new();
    while seen.len() < WRITERS * ROWS {
        let fetched = worker.fetch(100).await;
        assert_eq!(worker.publish(&fetched.rows).await, fetched.rows.len());
        seen.extend(fetched.rows.into_iter().map(|row| (row.key.unwrap(), id(&row.id))));
        assert!(seen.len() <= WRITERS * ROWS, "a row was read twice");
    }
    while writers.join_next().await.is_some() {}
    let unique: BTreeSet<_> = seen.iter().collect();
    assert_eq!(unique.len(), WRITERS * ROWS);
    for writer in 0..WRITERS {
        let of_key = seen.iter().filter(|(key, _)| **key == *writer.to_string());
        let numbers: Vec<u64> = of_key.map(|(_, id)| id.parse().unwrap()).collect();
        assert!(numbers.is_sorted(), "{writer}: {numbers:?}");
    }
    // Later rows were published before earlier ones: the test shows something.
    let numbers: Vec<u64> = seen.iter().map(|(_, id)| id.parse().unwrap()).collect();
    assert!(!numbers.is_sorted());
    assert_eq!(fixture.value("select count(*) from outbox where published_at is null").await, "0");
}
