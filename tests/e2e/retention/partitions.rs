//! Whole partitions are dropped while events flow, and made ahead.

use e2e::{Fixture, FixtureBuilder, PUBLICATION, ROLE, SHORT_DEADLINE, SLOT, wait_committed};
use serde_json::Value;
use testbed::load::{Load, Mix, TransactionKind};
use testbed::postgres::{DatabaseSession, create_slot};
use testbed::proxy::ProxyMode;
use testbed::wait::eventually;
use tokio::time::sleep;

use super::archive::random_moment;
use super::{DEADLINE, check_gone_are_delivered, count, wait_left};

/// How many partitions there are behind the present one, in the router's configuration.
const AHEAD: i64 = 40;

/// How long a partition lasts, and its rows are kept: so a partition is old six seconds after it
/// began.
pub(super) const SECONDS: i64 = 2;
const KEEP_SECONDS: i64 = 4;

pub(super) fn builder() -> FixtureBuilder {
    super::builder()
        .set("retention.mode", "drop_partitions")
        .set("retention.keep", format!("{KEEP_SECONDS}s"))
        .set("retention.partition_by", format!("{SECONDS}s"))
        .set("retention.partitions_ahead", AHEAD)
        .set("retention.lock_timeout", "1s")
}

/// ON CONFLICT needs a unique id, which a table that is partitioned by time cannot have.
fn load() -> Load {
    let mix =
        Mix::default().without(TransactionKind::InsertDelete).without(TransactionKind::Upsert);
    Load { mix, ..super::load() }
}

/// Makes the outbox again as a partitioned one, which has no partition, and lets the router's role
/// act as its owner.
pub(super) async fn partitioned(builder: FixtureBuilder) -> (Fixture, DatabaseSession) {
    let fixture = builder.prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session
        .batch_execute(&format!(
            "SELECT pg_drop_replication_slot('{SLOT}'); DROP PUBLICATION {PUBLICATION}; \
             CREATE TABLE again (LIKE outbox INCLUDING DEFAULTS, PRIMARY KEY (id, created_at)) \
               PARTITION BY RANGE (created_at); \
             DROP TABLE outbox; ALTER TABLE again RENAME TO outbox; \
             CREATE ROLE app; ALTER TABLE outbox OWNER TO app; \
             GRANT USAGE, CREATE ON SCHEMA public TO app; GRANT app TO {ROLE}"
        ))
        .await
        .unwrap();
    session
        .batch_execute(&format!(
            "CREATE PUBLICATION {PUBLICATION} FOR TABLE outbox \
             WITH (publish = 'insert', publish_via_partition_root = true)"
        ))
        .await
        .unwrap();
    create_slot(&session, SLOT, "pgoutput").await.unwrap();
    (fixture, session)
}

/// Waits until the partitions are there, and were read while they were empty: of a partition that
/// had rows by then, nothing shows that all of them are events, and it stays.
pub(super) async fn wait_known(fixture: &mut Fixture, session: &DatabaseSession) {
    eventually(DEADLINE, "partitions", async || {
        Ok((count(session, "pg_inherits WHERE inhparent = 'outbox'::regclass").await > AHEAD)
            .then_some(()))
    })
    .await
    .unwrap();
    let clock = "SELECT extract(epoch FROM clock_timestamp())::float8";
    let made: f64 = session.query_one(clock, &[]).await.unwrap().get(0);
    // The catalog is read before what this names the time of.
    let is_later = |status: &Value| {
        let at = status.pointer("/monitor/polled_at").and_then(Value::as_f64);
        at.is_some_and(|at| at > made + 1.0)
    };
    fixture.router.wait_status("a reading of them", DEADLINE, is_later).await.unwrap();
}

/// Waits until every partition has gone that had begun when this call began. A partition's name
/// ends in the time of its beginning.
async fn wait_dropped(session: &DatabaseSession) {
    let now = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', \
               '\"outbox_p\"YYYYMMDD_HH24MISS')";
    let youngest: String = session.query_one(now, &[]).await.unwrap().get(0);
    let begun = format!(
        "pg_inherits WHERE inhparent = 'outbox'::regclass \
         AND inhrelid::regclass::text <= '{youngest}'"
    );
    eventually(2 * DEADLINE, format!("no {begun}"), async || {
        Ok((count(session, &begun).await == 0).then_some(()))
    })
    .await
    .unwrap();
}

/// Waits until a row that is there now is older than `keep` by some partitions.
async fn wait_overdue(session: &DatabaseSession) {
    let row = session.query_one("SELECT (now() + interval '1s')::text", &[]).await.unwrap();
    let now: String = row.get(0);
    let overdue = KEEP_SECONDS + 3 * SECONDS;
    let sql = format!(
        "SELECT now() > timestamptz '{now}' + interval '{overdue}s' \
         AND EXISTS (SELECT FROM outbox WHERE created_at <= '{now}')"
    );
    eventually(DEADLINE, sql.clone(), async || {
        let row = session.query_one(&sql, &[]).await.unwrap();
        Ok(row.get::<_, bool>(0).then_some(()))
    })
    .await
    .unwrap();
}

fn gaps(status: &Value) -> usize {
    status.pointer("/witness/gaps").and_then(Value::as_array).map_or(0, Vec::len)
}

#[tokio::test]
async fn delivered_partitions_go_whole_and_no_undelivered_row_goes_with_them() {
    const OUTAGES: usize = 3;
    let (mut fixture, session) = partitioned(builder().proxied_kafka()).await;
    fixture.start_accepted().await.unwrap();
    wait_known(&mut fixture, &session).await;
    let running = fixture.load(load());
    for outage in 0..OUTAGES {
        wait_committed(&running, 200).await.unwrap();
        wait_dropped(&session).await;
        assert!(check_gone_are_delivered(&fixture, &session).await > 0);
        let mode = if outage % 2 == 0 { ProxyMode::BlackHole } else { ProxyMode::HoldAnswers };
        fixture.kafka_proxy().unwrap().set(mode).await.unwrap();
        wait_committed(&running, 200).await.unwrap();
        // Partitions are old meanwhile, and not one row of the outage is delivered.
        wait_overdue(&session).await;
        check_gone_are_delivered(&fixture, &session).await;
        if outage == 1 {
            // Partitions that its witness names have gone when it starts again.
            fixture.kill_router().await.unwrap();
            fixture.kafka_proxy().unwrap().set(ProxyMode::Forward).await.unwrap();
            fixture.restart().await.unwrap();
        } else {
            fixture.kafka_proxy().unwrap().set(ProxyMode::Forward).await.unwrap();
            fixture.wait_streaming().await.unwrap();
        }
        wait_dropped(&session).await;
        check_gone_are_delivered(&fixture, &session).await;
        assert_eq!(gaps(&fixture.router.status().await.unwrap()), 0);
    }
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    wait_left(&session, 0).await;
    wait_none_detached(&session).await;
    assert_eq!(gaps(&fixture.router.status().await.unwrap()), 0);
    fixture.check().await.unwrap().clean().unwrap();
}

/// Every two seconds another partition is detached, and dropped a moment later. One that was left
/// would stay.
async fn wait_none_detached(session: &DatabaseSession) {
    let left = "pg_class WHERE relname LIKE 'outbox\\_p%' AND relkind = 'r' AND NOT relispartition";
    eventually(DEADLINE, "no detached partition", async || {
        Ok((count(session, left).await == 0).then_some(()))
    })
    .await
    .unwrap();
}

/// A process that is killed leaves a partition half detached, or a table that was one.
#[tokio::test]
async fn a_router_that_is_killed_at_any_moment_goes_on_dropping_where_it_was() {
    const KILLS: usize = 8;
    let (mut fixture, session) = partitioned(builder()).await;
    fixture.start_accepted().await.unwrap();
    wait_known(&mut fixture, &session).await;
    let running = fixture.load(load());
    for _ in 0..KILLS {
        wait_committed(&running, 100).await.unwrap();
        wait_dropped(&session).await;
        sleep(random_moment()).await;
        fixture.kill_router().await.unwrap();
        check_gone_are_delivered(&fixture, &session).await;
        fixture.restart().await.unwrap();
    }
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    wait_left(&session, 0).await;
    wait_none_detached(&session).await;
    assert_eq!(gaps(&fixture.router.status().await.unwrap()), 0);
    fixture.check().await.unwrap().clean().unwrap();
}
