//! The switch names rows by the texts that the stream shows of their keys.

use std::time::Duration;

use outbox_router::polling::sql::{
    begin_snapshot,
    setup::Deletes,
    switch::{UNDELIVERED, Undelivered, note_undelivered},
};

use tokio_postgres::error::SqlState;

use crate::fixture::{Fixture, TABLE, default_table, first_value, polling};

/// Types, and a value of each.
const KEYS: &[(&str, &str)] = &[
    ("char(10)", "'a1'"),
    ("\"char\"", "'x'"),
    ("name", "'n'"),
    ("boolean", "true"),
    ("inet", "'10.0.0.1'"),
    ("cidr", "'10.0.0.0/8'"),
    ("macaddr", "'08:00:2b:01:02:03'"),
    ("date", "'2026-11-27'"),
    ("timestamptz", "'2026-11-27 10:00:00.123456+02'"),
    ("timestamp", "'2026-11-27 10:00:00'"),
    ("interval", "'1 day 2 hours'"),
    ("uuid", "'6b2f4a5e-0000-4000-8000-000000000001'"),
    ("numeric(10,3)", "7.1"),
    ("float8", "0.1"),
    ("bytea", "'\\x00ff'"),
    ("varchar(4)", "'ab'"),
    ("bit(3)", "'101'"),
];

/// A row of the slot that is not delivered must not be marked, whatever the type of its key.
#[tokio::test]
async fn a_row_that_the_slot_still_has_is_not_declared_delivered() {
    let fixture = Fixture::new(&default_table("")).await;
    for (sql_type, value) in KEYS {
        fixture
            .run(&format!(
                "drop table outbox; create table outbox (id {sql_type} primary key, \
                 aggregate_type text not null, aggregate_id text not null, event_type text, \
                 payload jsonb, created_at timestamptz default now(), published_at timestamptz); \
                 insert into outbox (id, aggregate_type, aggregate_id) \
                 values ({value}, 'order', 'k')"
            ))
            .await;
        fixture.grant(Deletes::No).await;
        let worker = fixture.worker(polling()).await;
        let table = worker.database.table(TABLE).unwrap();
        let session = fixture.session().await;
        session.batch_execute(&begin_snapshot(None)).await.unwrap();
        session.batch_execute(UNDELIVERED).await.unwrap();
        // As text, a value is what its output function writes, which is what pgoutput sends.
        let shown = first_value(&session, "select id from public.outbox").await;
        let fetch = "fetch 10 from outbox_router_delivered";
        session.batch_execute(&table.declare_delivered("true", None)).await.unwrap();
        assert_ne!(count(&session, fetch).await, 0, "{sql_type}: without a note it is delivered");
        session.batch_execute("close outbox_router_delivered").await.unwrap();
        // Every snapshot sees rows that are frozen as they are written, which takes a TRUNCATE.
        session.batch_execute(&table.lock_against_truncate()).await.unwrap();
        let writer = fixture.session().await;
        let truncate = "set lock_timeout = '100ms'; truncate public.outbox";
        let refused = writer.batch_execute(truncate).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{sql_type}");
        let ids = vec![shown];
        let undelivered = [Undelivered { id: ids.clone(), is_event: true, xid: 1, content: None }];
        session.batch_execute(&note_undelivered(table, &undelivered)).await.unwrap();
        session.batch_execute(&table.declare_delivered("true", None)).await.unwrap();
        assert_eq!(count(&session, fetch).await, 0, "{sql_type}: {ids:?}");
        for found in [table.undelivered_gone(), table.pending_unnoted()] {
            assert_eq!(first_value(&session, &found).await, "0", "{sql_type}: {ids:?}");
        }
    }
}

/// `recover --skip-bad` has promised that such rows are kept.
#[tokio::test]
async fn a_row_that_was_left_out_is_not_declared_delivered() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    fixture
        .run(
            "create table outbox_router.left_out (pipeline text, table_oid oid, event_id text); \
             insert into outbox (aggregate_id) values ('a'), ('b'); \
             insert into outbox_router.left_out \
             select p, 'outbox'::regclass, o.id::text from outbox o, \
               (values ('w', 'a'), ('other', 'b')) as v (p, key) where o.aggregate_id = v.key",
        )
        .await;
    let worker = fixture.worker(polling()).await;
    let table = worker.database.table(TABLE).unwrap();
    let kept = table.is_left_out().unwrap();
    let session = fixture.session().await;
    assert_eq!(first_value(&session, &table.count_pending(&kept)).await, "1");
    session.batch_execute(&begin_snapshot(None)).await.unwrap();
    session.batch_execute(UNDELIVERED).await.unwrap();
    session.batch_execute(&table.declare_delivered("true", Some(&kept))).await.unwrap();
    let delivered = session.simple_query("fetch 10 from outbox_router_delivered").await.unwrap();
    let ids: Vec<_> = delivered.iter().filter_map(first_text).collect();
    assert_eq!(ids, [fixture.value("select id from outbox where aggregate_id = 'b'").await]);
    session.batch_execute("rollback").await.unwrap();
    // One whose id was changed may be any row.
    for (changed, unfound) in [("false", "0"), ("aggregate_id = 'a'", "1")] {
        let statement = format!("update outbox set id = default where {changed}");
        session.batch_execute(&statement).await.unwrap();
        for query in table.count_unfound_left_out() {
            assert_eq!(first_value(&session, &query).await, unfound, "{changed}");
        }
    }
}

fn first_text(message: &tokio_postgres::SimpleQueryMessage) -> Option<&str> {
    let tokio_postgres::SimpleQueryMessage::Row(row) = message else { return None };
    row.get(0)
}

async fn count(session: &testbed::postgres::DatabaseSession, sql: &str) -> usize {
    let messages = session.simple_query(sql).await.unwrap();
    let is_row = |message: &&tokio_postgres::SimpleQueryMessage| {
        matches!(message, tokio_postgres::SimpleQueryMessage::Row(_))
    };
    messages.iter().filter(is_row).count()
}

/// Those that are to be sent within the time do not count, such as what a worker has just claimed.
#[tokio::test]
async fn a_row_that_is_never_to_be_sent_is_later_than_every_wait() {
    let fixture =
        Fixture::new(&default_table(", published_at timestamptz, available_at timestamptz")).await;
    fixture
        .run(
            "insert into outbox (aggregate_id, available_at) values \
             ('a', 'infinity'), ('b', null), ('c', now() + interval '10 s')",
        )
        .await;
    let worker = fixture.worker(polling()).await;
    let table = worker.database.table(TABLE).unwrap();
    let session = fixture.session().await;
    for (within, later) in [(Duration::from_secs(60), 1), (Duration::ZERO, 2)] {
        let row = session.query_one(&table.pending_after(within), &[]).await.unwrap();
        let (rows, at): (i64, String) = (row.get(0), row.get(1));
        assert_eq!((rows, at.as_str()), (later, "infinity"));
    }
}
