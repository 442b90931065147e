//! Spill, other slots, the directory, and the settings.

use super::{any_figures, monitor, server, until_figures};

#[tokio::test]
async fn a_slot_without_neighbours_limits_and_spill_has_empty_figures() {
    for version in [15, 17, 18] {
        let (server, session) = server(version, &[]).await;
        let figures = any_figures(&mut monitor(&server)).await;
        assert_eq!(figures.limits.wal_keep_bytes, None, "{version}");
        assert_eq!(figures.limits.idle_timeout_seconds, None, "{version}");
        assert_eq!(figures.limits.wal_sender_timeout_seconds, Some(60.0), "{version}");
        assert_eq!((figures.limits.slots_used, figures.limits.slots_max), (1, 20), "{version}");
        let spill = figures.spill.unwrap();
        assert_eq!((spill.spill_txns, spill.spill_bytes, spill.total_bytes), (0, 0, 0));
        assert_eq!(figures.pins, []);
        assert_eq!((figures.other_slots.inactive, figures.other_slots.largest), (0, None));
        assert_eq!(figures.standbys.is_some(), version >= 17, "{version}");
        assert_eq!(figures.denied, []);
        assert!(figures.catalog_xmin_age.is_some());
        let sum = "select sum(size)::int8 from pg_ls_waldir()";
        let sum: i64 = session.query_one(sum, &[]).await.unwrap().get(0);
        assert_eq!(figures.wal_directory.unwrap().bytes, u64::try_from(sum).unwrap());
    }
}

#[tokio::test]
async fn what_decoding_writes_to_disk_is_counted() {
    for version in [15, 18] {
        let (server, session) = server(version, &[("logical_decoding_work_mem", "64kB")]).await;
        let mut monitor = monitor(&server);
        any_figures(&mut monitor).await;
        let insert = "insert into outbox_x (aggregate_type, aggregate_id, event_type) \
                      select 'a', repeat('x', 100), 'e' from generate_series(1, 3000)";
        session.batch_execute(insert).await.unwrap();
        let decode = "select count(*) from pg_logical_slot_get_binary_changes('s_x', null, null, \
                      'proto_version', '1', 'publication_names', 'p_x')";
        session.batch_execute(decode).await.unwrap();
        let spilled = |spill: outbox_router::monitor::watch::figures::Spill| {
            spill.spill_txns == 1
                && spill.spill_count > 1
                && spill.spill_bytes > 64 << 10
                && spill.total_bytes >= spill.spill_bytes
        };
        until_figures(&mut monitor, "a spill", |figures| figures.spill.is_some_and(spilled)).await;
        session.batch_execute("select pg_drop_replication_slot('s_x')").await.unwrap();
        let gone = until_figures(&mut monitor, "no spill", |figures| figures.spill.is_none()).await;
        assert_eq!(gone.watch.figures.unwrap().catalog_xmin_age, None);
    }
}

#[tokio::test]
async fn of_other_slots_the_one_that_retains_most_is_named() {
    let (server, session) = server(15, &[]).await;
    let mut monitor = monitor(&server);
    // One that was never used retains nothing.
    for statement in [
        "select pg_create_physical_replication_slot('unused')",
        "select pg_create_physical_replication_slot('early', true)",
        "insert into n select 1, repeat('x', 1000) from generate_series(1, 3000)",
        "select pg_create_logical_replication_slot('late', 'pgoutput')",
    ] {
        session.batch_execute(statement).await.unwrap();
    }
    let report = until_figures(&mut monitor, "two slots", |figures| {
        figures.other_slots.inactive == 2 && figures.limits.slots_used == 4
    })
    .await;
    let largest = report.watch.figures.unwrap().other_slots.largest.unwrap();
    assert_eq!(largest.name, "early");
    assert!(largest.retained_bytes > 3_000_000, "{largest:?}");
    session.batch_execute("select pg_drop_replication_slot('early')").await.unwrap();
    until_figures(&mut monitor, "the other", |figures| {
        figures.other_slots.largest.as_ref().is_some_and(|slot| slot.name == "late")
    })
    .await;
}
