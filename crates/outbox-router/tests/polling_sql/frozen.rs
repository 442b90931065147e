//! A worker that is frozen while it reads: its transaction is open, and the rows are locked.

use std::{pin::pin, time::Duration};

use relay::polling::{FetchRequest, PassedOver, ShardSet};
use testbed::wait::eventually;
use tokio::time::timeout;

use crate::fixture::{Fixture, TABLE, Worker, default_table, polling};

const LONG: Duration = Duration::from_mins(2);

/// More than sockets take, so that the server waits for the reader.
const ROWS: &str = "insert into outbox (aggregate_id, payload) \
    select i, to_jsonb(string_agg(md5(i || ' ' || j), '')) \
    from generate_series(1, 600) i, generate_series(1, 1200) j group by i";

/// How many backends wait for a client to read.
const WAIT: &str = "select count(*) from pg_stat_activity where wait_event = 'ClientWrite'";
const UNLOCKED: &str = "select count(*) from (select from outbox for update skip locked) r";

#[tokio::test]
async fn rows_that_a_frozen_worker_has_locked_are_free_after_a_while() {
    let claimed = ", published_at timestamptz, locked_by text, locked_until timestamptz";
    let fixture = Fixture::new(&default_table(claimed)).await;
    fixture.run(ROWS).await;
    let mut worker = Worker::on(fixture.connector(), polling()).await;
    let (shards, passed_over) = (ShardSet::ALL, PassedOver::NOTHING);
    let request = FetchRequest { table: TABLE, shards, limit: 1_000, passed_over };
    {
        let mut reading = pin!(worker.database.fetch(&request));
        // It goes on for a moment at a time.
        while fixture.value(WAIT).await == "0" {
            assert!(timeout(Duration::from_millis(1), &mut reading).await.is_err());
        }
        assert_eq!(fixture.value(UNLOCKED).await, "0");
        eventually(LONG, "the server to give it up", async || {
            Ok((fixture.value(UNLOCKED).await == "600").then_some(()))
        })
        .await
        .unwrap();
        assert!(reading.await.is_err());
    }
    assert_eq!(worker.fetch(1_000).await.rows.len(), 600);
}
