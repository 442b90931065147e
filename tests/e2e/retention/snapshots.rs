//! Transactions that keep their snapshot, in a database where REPEATABLE READ is the default: they
//! go on writing to the partition of their beginning while partitions are dropped.

use std::collections::HashSet;

use e2e::Fixture;
use serde_json::Value;
use testbed::postgres::{DATABASE, DatabaseSession};
use testbed::wait::eventually;

use super::partitions::{SECONDS, builder, partitioned, wait_known};
use super::{DEADLINE, count, last_success, wait_left};

const INSERTS: usize = 8;

/// A sweep ends at the third partition that another transaction has locked.
const LOCKED_MAX: i64 = 3;

const INSERT: &str = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) \
                      VALUES ('order', 'long', 'Late', '{}') RETURNING id::text";

/// A transaction whose rows have the time of its beginning.
struct Writer {
    session: DatabaseSession,
    /// Where they go.
    partition: String,
    written: HashSet<String>,
    refused: usize,
}

impl Writer {
    async fn begin(fixture: &Fixture) -> Self {
        let session = fixture.session().await.unwrap();
        session.batch_execute("BEGIN").await.unwrap();
        // This takes the snapshot, too.
        let partition = format!(
            "SELECT to_char(date_bin('{SECONDS}s', now(), 'epoch') AT TIME ZONE 'UTC', \
             '\"outbox_p\"YYYYMMDD_HH24MISS'), current_setting('transaction_isolation')"
        );
        let row = session.query_one(&partition, &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(1), "repeatable read");
        Self { session, partition: row.get(0), written: HashSet::new(), refused: 0 }
    }

    async fn insert(&mut self) {
        self.session.batch_execute("SAVEPOINT before").await.unwrap();
        match self.session.query_one(INSERT, &[]).await {
            Ok(row) => {
                self.written.insert(row.get(0));
            }
            Err(_) => {
                self.session.batch_execute("ROLLBACK TO before").await.unwrap();
                self.refused += 1;
            }
        }
    }

    /// Begins one that has written to its partition, which a sweep comes to: it locks the root, so
    /// that none of the older partitions can be dropped any more.
    async fn begin_and_write(fixture: &Fixture, session: &DatabaseSession) -> Self {
        eventually(DEADLINE, "fewer older partitions", async || {
            let mut writer = Self::begin(fixture).await;
            writer.insert().await;
            let older = format!(
                "pg_class WHERE relname LIKE 'outbox\\_p%' AND relkind = 'r' AND relname < '{}'",
                writer.partition
            );
            let is_first = writer.refused == 0 && count(session, &older).await < LOCKED_MAX;
            Ok(is_first.then_some(writer))
        })
        .await
        .unwrap()
    }

    async fn commit(&self) {
        self.session.batch_execute("COMMIT").await.unwrap();
    }
}

/// Sweeps that came to their end, and those that failed.
fn sweeps(status: &Value) -> (Option<f64>, Option<u64>) {
    (last_success(status), status.pointer("/retention/errors").and_then(Value::as_u64))
}

/// Waits for a whole sweep that began after this call; one that meets a lock fails.
async fn wait_tried(fixture: &mut Fixture) {
    for _ in 0..2 {
        let last = sweeps(&fixture.router.status().await.unwrap());
        let is_later = |status: &Value| sweeps(status) != last;
        fixture.router.wait_status("a sweep", DEADLINE, is_later).await.unwrap();
    }
}

/// Waits until a sweep has tried to take the partition, and could not.
async fn wait_met(fixture: &Fixture, partition: &str) {
    let is_tried = |line: &str| line.contains("retention STATEMENT: ") && line.contains(partition);
    eventually(DEADLINE, format!("a statement about {partition}"), async || {
        let log = std::fs::read_to_string(fixture.postgres.log())?;
        Ok(log.lines().any(is_tried).then_some(()))
    })
    .await
    .unwrap();
}

async fn wait_dropped(session: &DatabaseSession, partition: &str) {
    let what = format!("pg_class WHERE relname = '{partition}'");
    eventually(DEADLINE, format!("no {what}"), async || {
        Ok((count(session, &what).await == 0).then_some(()))
    })
    .await
    .unwrap();
}

/// One has written nothing when the partition of its time is dropped. The other writes from its
/// beginning on, before and after its partition is old.
#[tokio::test]
async fn what_a_long_transaction_of_one_snapshot_writes_is_delivered_or_refused() {
    let builder = builder().set("retention.keep", "0s").set("retention.lock_timeout", "100ms");
    let (mut fixture, session) = partitioned(builder).await;
    let isolate =
        format!("ALTER DATABASE {DATABASE} SET default_transaction_isolation = 'repeatable read'");
    session.batch_execute(&isolate).await.unwrap();
    fixture.start_accepted().await.unwrap();
    wait_known(&mut fixture, &session).await;
    let mut late = Writer::begin(&fixture).await;
    wait_dropped(&session, &late.partition).await;
    late.insert().await;
    assert_eq!((late.written.len(), late.refused), (0, 1));

    let mut long = Writer::begin_and_write(&fixture, &session).await;
    for _ in 0..INSERTS / 2 {
        long.insert().await;
        late.insert().await;
        wait_tried(&mut fixture).await;
    }
    wait_met(&fixture, &long.partition).await;
    for _ in 0..INSERTS / 2 {
        long.insert().await;
        late.insert().await;
        wait_tried(&mut fixture).await;
    }
    late.commit().await;
    long.commit().await;
    assert_eq!((long.written.len(), long.refused), (1 + INSERTS, 0));
    assert_eq!((late.written.len(), late.refused), (0, 1 + INSERTS));

    // Rows are read before the topic: what is sent in between is no excuse that is needed.
    let kept = session.query("SELECT id::text FROM outbox", &[]).await.unwrap();
    let kept: HashSet<String> = kept.iter().map(|row| row.get(0)).collect();
    let (sent, _) = fixture.delivered_ids().await.unwrap();
    let lost: Vec<&String> =
        long.written.iter().filter(|id| !kept.contains(*id) && !sent.contains(*id)).collect();
    assert!(lost.is_empty(), "in no table and in no topic: {lost:?}");
    wait_dropped(&session, &long.partition).await;
    wait_left(&session, 0).await;
    let (sent, doubled) = fixture.delivered_ids().await.unwrap();
    assert_eq!((sent, doubled), (long.written, 0));
}
