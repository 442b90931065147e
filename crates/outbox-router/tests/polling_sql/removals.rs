//! How old a row is that was abandoned.

use std::time::Duration;

use outbox_router::polling::sql::{Leaves, Removal, RemovalRules, Scan};

use crate::fixture::{Fixture, TABLE, default_table, polling};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The column of the time is there, and others abandon rows by the word alone.
#[tokio::test]
async fn a_row_without_a_time_of_giving_up_is_as_old_as_its_last_attempt() {
    let more = ", status text not null default 'PENDING', available_at timestamptz, \
                abandoned_at timestamptz";
    let fixture = Fixture::new(&default_table(more)).await;
    fixture
        .run(
            "insert into outbox (aggregate_id, status, created_at, available_at, abandoned_at) \
             select 'a', 'ABANDONED', now() - make_interval(days => c), \
               now() - make_interval(days => v), now() - make_interval(days => g) \
             from (values (40, 1, null), (40, 35, null), (40, null, null), (10, null, null), \
               (40, 40, 1), (40, 1, 35)) as x (c, v, g); grant delete on outbox to router",
        )
        .await;
    let mut worker = fixture.worker(polling()).await;
    let rules = RemovalRules {
        keep: DAY,
        abandoned_keep: 30 * DAY,
        time_column: None,
        batch: 10,
        lock_timeout: Duration::from_secs(2),
        scan: Scan::Whole,
    };
    let removal = Removal::of(worker.database.table(TABLE).unwrap(), &rules).unwrap();
    let removed = worker.database.remove(TABLE, &removal, Leaves::Abandoned).await.unwrap();
    let left = "select string_agg(id::text, ' ' order by id) from outbox";
    assert_eq!((removed, fixture.value(left).await.as_str()), (3, "1 4 5"));
}
