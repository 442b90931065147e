//! How many rows are in which state.

use std::time::Duration;

use outbox_router::polling::sql::RowCount;
use relay::polling::{RowOutcome, SettleRequest};

use crate::fixture::{Fixture, TABLE, default_table, failed, nothing, polling};

#[tokio::test]
async fn rows_are_counted_by_their_states() {
    let more = ", status text not null default 'pending', attempts int default 0, \
        available_at timestamptz default now(), locked_until timestamptz, published_at timestamptz";
    let fixture = Fixture::new(&default_table(more)).await;
    fixture
        .run(
            "insert into outbox (aggregate_id, created_at) \
             select i, now() - interval '90 s' from generate_series(1, 10) i",
        )
        .await;
    let mut worker = fixture.worker(polling().with_letters()).await;
    let rows = worker.fetch(5).await.rows;
    let failed = vec![
        failed(&rows[0], 1, RowOutcome::Retry(Duration::from_secs(60))),
        failed(&rows[1], 1, RowOutcome::Retry(Duration::from_secs(60))),
        failed(&rows[2], 5, RowOutcome::Abandon),
    ];
    let published = vec![rows[3].id.clone()];
    worker.settle(SettleRequest { published, failed, ..nothing() }).await;
    let survey = worker.database.survey(TABLE).await.unwrap();
    let exactly = [survey.pending, survey.failed, survey.abandoned, survey.processing];
    assert_eq!(exactly, [8, 2, 1, 1].map(RowCount::Exactly));
    let oldest = survey.oldest_seconds.unwrap();
    assert!((90.0..150.0).contains(&oldest), "{oldest}");
}

#[tokio::test]
async fn more_rows_than_are_counted_are_at_least_so_many() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    let mut worker = fixture.worker(polling()).await;
    let empty = worker.database.survey(TABLE).await.unwrap();
    assert_eq!((empty.pending, empty.oldest_seconds), (RowCount::Exactly(0), None));
    fixture
        .run("insert into outbox (aggregate_id) select i from generate_series(1, 100002) i")
        .await;
    let survey = worker.database.survey(TABLE).await.unwrap();
    assert_eq!(survey.pending, RowCount::AtLeast(100_000));
    assert_eq!(survey.failed, RowCount::Exactly(0));
}
