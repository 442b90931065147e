//! Which workers hold shards of a table, as people are told.

use std::time::Duration;

use relay::{Code, polling::LeaseRequest};
use uuid::Uuid;

use crate::fixture::{Fixture, default_table, name, polling};

fn hold(shards: u32) -> LeaseRequest {
    LeaseRequest::Hold { wanted: vec![shards] }
}

#[tokio::test]
async fn each_worker_is_named_with_its_shards_and_its_lease() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    let mut database = fixture.worker(polling()).await.database;
    assert_eq!(database.shares(&name()).await.unwrap().holders, []);
    let (one, other) = (Uuid::new_v4(), Uuid::new_v4());
    let mut first = fixture.leases(one, Duration::from_secs(10));
    first.answer(&hold(40)).await.unwrap();
    let mut second = fixture.leases(other, Duration::from_secs(1));
    second.answer(&hold(64)).await.unwrap();
    let holders = database.shares(&name()).await.unwrap().holders;
    let found: Vec<(&str, &str, u32)> = holders
        .iter()
        .map(|holder| (holder.worker.as_str(), holder.name.as_str(), holder.shards))
        .collect();
    assert_eq!(found, [(one.to_string().as_str(), "w", 40), (other.to_string().as_str(), "w", 24)]);
    assert!((8.0..=10.0).contains(&holders[0].lasts_seconds), "{holders:?}");
    // A worker that dies holds its shards until somebody takes them, and its lease has ended.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let holders = database.shares(&name()).await.unwrap().holders;
    assert!(!holders[1].is_live() && holders[0].is_live(), "{holders:?}");
}

#[tokio::test]
async fn without_the_tables_of_leases_the_code_says_so_and_rows_are_counted() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    let mut database = fixture.worker(polling()).await.database;
    fixture.run("drop schema outbox_router cascade").await;
    let failure = database.shares(&name()).await.unwrap_err();
    assert_eq!(failure.code, Code::LeaseTable);
    // The connection is given up after an error, and the next request has another one.
    assert!(database.survey(crate::fixture::TABLE).await.is_ok());
}
