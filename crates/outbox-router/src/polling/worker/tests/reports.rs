//! What a worker reports of the rows that it has read: docs/polling.md, "What is seen".

use std::time::Duration;

use relay::{
    Code,
    polling::{PollState, PollerReport, PollerSettings, RetryPolicy, ShardSet},
};
use tokio::time::Instant;

use super::fixture::{Fixture, TIMES, cluster, kafka_at, settings};

/// Three rows that can be delivered, and one whose headers are no object (R009).
const ROWS: &str = "insert into outbox (aggregate_id, headers) \
    values ('a', null), ('b', '[1]'), ('c', null), ('d', null)";

fn batches_with_rows(report: &PollerReport) -> u64 {
    report.batch_times.buckets.iter().sum()
}

fn acked(report: &PollerReport) -> u64 {
    report.topics.iter().map(|topic| topic.acked).sum()
}

/// Somebody keeps a row locked meanwhile, so that marking the batch takes long.
#[tokio::test]
async fn a_report_says_what_became_of_rows_and_how_long_a_batch_took_with_its_marks() {
    let (fixture, cluster) = (Fixture::new(TIMES).await, cluster());
    fixture.run(ROWS).await;
    let other = fixture.another_session().await;
    other.batch_execute("begin; select from outbox where id = 1 for update").await.unwrap();
    let retry = RetryPolicy { max_attempts: 2, ..settings().retry };
    let settings = PollerSettings { retry, ..settings() };
    let mut at_work = fixture.worker(settings, kafka_at(cluster.bootstrap_servers()));

    let report = at_work.until_reported("acknowledgements", |report| acked(report) == 3).await;
    let acked_at = Instant::now();
    assert_eq!((report.tables[0].fetched, report.tables[0].published), (4, 0));
    assert_eq!(batches_with_rows(&report), 0, "its marks are not written");
    at_work.work_for(Duration::from_millis(300)).await;
    let waited = acked_at.elapsed();
    other.batch_execute("commit").await.unwrap();

    let is_over = |report: &PollerReport| report.tables[0].abandoned == 1;
    let over = at_work.until_reported("an abandoned row", is_over).await;
    let took = Duration::from_micros(over.batch_times.sum_micros);
    assert!(took >= waited, "{took:?} and {waited:?}");
    let table = &over.tables[0];
    assert_eq!((table.fetched, table.published), (5, 3), "one of the four was read twice");
    assert_eq!((table.failed, table.waiting), (2, 0));
    assert_eq!((table.shards, over.workers), (ShardSet::ALL, 1));
    assert_eq!((over.claims_lost, over.unacked), (0, 0));
    assert_eq!(over.errors.get(&Code::HeadersMalformed), Some(&2));
    assert_eq!((over.state, acked(&over)), (PollState::Polling, 3));

    assert_eq!(batches_with_rows(&over), 2);
    let reads_on = |report: &PollerReport| report.tables[0].batches >= table.batches + 5;
    let later = at_work.until_reported("further readings", reads_on).await;
    assert_eq!(later.batch_times, over.batch_times, "batches without rows took no time");
}
