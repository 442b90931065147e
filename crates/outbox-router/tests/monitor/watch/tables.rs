//! How large the outbox tables are, as a role sees that may read none of them.

use std::time::Duration;

use outbox_router::monitor::tables::TableSize;

use super::{monitor_as, server};

#[tokio::test]
async fn sizes_are_read_without_a_right_to_the_table_and_with_all_partitions() {
    let (server, session) = server(15, &[]).await;
    let make = "create role plain login replication; \
        drop publication p_x; drop table outbox_x; \
        create table outbox_x (id int, aggregate_type text not null, aggregate_id text not null, \
          event_type text not null, payload jsonb, created_at timestamptz) partition by list (id); \
        create table one partition of outbox_x for values in (1); \
        create table two partition of outbox_x for values in (2); \
        insert into outbox_x select 1 + n % 2, 'a', n::text, 'e' from generate_series(1, 3000) n; \
        analyze; \
        create publication p_x for table outbox_x \
          with (publish = 'insert', publish_via_partition_root = true)";
    session.batch_execute(make).await.unwrap();
    let mut monitor = monitor_as(&server, "plain");
    let report = monitor.until("sizes", |report| !report.tables.is_empty()).await;
    let [TableSize { name, rows, bytes }] = &report.tables[..] else { panic!("{report:?}") };
    assert_eq!((name.to_string().as_str(), *rows), ("public.outbox_x", 3000));
    let both = "select pg_total_relation_size('one') + pg_total_relation_size('two')";
    let both: i64 = session.query_one(both, &[]).await.unwrap().get(0);
    assert_eq!(*bytes, u64::try_from(both).unwrap());
    assert!(report.trouble.is_none() && report.watch.trouble.is_none());
}

/// A rewrite of the table may take as long as it likes.
#[tokio::test]
async fn a_table_that_is_locked_has_no_size_and_the_slot_is_read() {
    let (server, session) = server(15, &[]).await;
    session.batch_execute("create role plain login replication").await.unwrap();
    session.batch_execute("begin; lock table outbox_x").await.unwrap();
    let mut monitor = monitor_as(&server, "plain");
    let report = monitor.until("a reading", |report| report.watch.figures.is_some()).await;
    assert!(report.slot.health().is_some() && report.findings.is_empty(), "{report:?}");
    monitor.rounds(5).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let report = monitor.report.borrow().clone();
    assert!(report.tables.is_empty() && report.trouble.is_none(), "{report:?}");
}
