//! What a role may not read is named, and costs nothing else.

use outbox_router::monitor::pins::PinHolder;

use super::{monitor_as, server, until_figures};
use crate::log::Log;

const GRANT: &str = "grant pg_monitor to \"plain\"";

#[tokio::test]
async fn a_role_without_pg_monitor_is_told_what_to_type_and_sees_everything_else() {
    let log = Log::default();
    let _guard = log.listen();
    for version in [15, 18] {
        let (server, session) = server(version, &[]).await;
        session.batch_execute("create role plain login replication").await.unwrap();
        let idle = server.connect().await.unwrap();
        idle.batch_execute("begin; insert into n values (1)").await.unwrap();
        let pid: i32 = idle.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        let mut monitor = monitor_as(&server, "plain");
        let report = until_figures(&mut monitor, "figures", |_| true).await;
        assert_eq!((report.trouble, report.watch.trouble), (None, None));
        let figures = report.watch.figures.unwrap();
        let denied: Vec<_> =
            figures.denied.iter().map(|denied| (denied.object, denied.grant.as_str())).collect();
        assert_eq!(denied, [("pg_stat_activity", GRANT), ("pg_ls_waldir", GRANT)]);
        assert_eq!(figures.wal_directory, None);
        // Who it is, is visible; what it does, is not.
        let pin = &figures.pins[0];
        assert!(matches!(pin.holder, PinHolder::Backend { pid: seen, .. } if seen == pid));
        assert_eq!(pin.user.as_deref(), Some("postgres"));
        assert_eq!((pin.seconds, pin.query_seconds, pin.state.as_deref()), (None, None, None));
        assert!(figures.spill.is_some() && figures.catalog_xmin_age.is_some());
        assert_eq!(figures.limits.slots_used, 1);
        monitor.rounds(3).await;
        let lines = log.lines("may not read");
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines.iter().all(|line| line.contains(" INFO ") && line.contains(GRANT)));

        session.batch_execute(GRANT).await.unwrap();
        let seen = until_figures(&mut monitor, "everything", |figures| {
            figures.denied.is_empty() && figures.wal_directory.is_some()
        })
        .await;
        assert!(seen.watch.figures.unwrap().pins[0].seconds.is_some());
        session.batch_execute("revoke pg_monitor from plain").await.unwrap();
        let hidden = until_figures(&mut monitor, "less", |figures| figures.denied.len() == 2).await;
        assert_eq!(hidden.watch.figures.unwrap().wal_directory, None);
        log.clear();
    }
}

/// As some administrators do it.
#[tokio::test]
async fn a_view_that_was_revoked_costs_its_own_figure_alone() {
    let (server, session) = server(18, &[]).await;
    let revoke = "create role plain login replication in role pg_monitor; \
                  revoke select on pg_stat_replication_slots, pg_stat_activity, pg_prepared_xacts \
                    from public; \
                  revoke execute on function pg_ls_waldir() from pg_monitor";
    session.batch_execute(revoke).await.unwrap();
    let mut monitor = monitor_as(&server, "plain");
    let report = until_figures(&mut monitor, "figures", |_| true).await;
    assert_eq!((report.trouble, report.watch.trouble), (None, None));
    let figures = report.watch.figures.unwrap();
    let grants: Vec<_> = figures.denied.iter().map(|denied| denied.grant.as_str()).collect();
    assert_eq!(
        grants,
        [
            "grant select on pg_catalog.pg_stat_activity to \"plain\"",
            "grant select on pg_catalog.pg_prepared_xacts to \"plain\"",
            "grant select on pg_catalog.pg_stat_replication_slots to \"plain\"",
            "grant execute on function pg_catalog.pg_ls_waldir() to \"plain\"",
        ]
    );
    assert_eq!((figures.spill, figures.wal_directory), (None, None));
    assert_eq!(figures.limits.slots_used, 1);
    assert!(figures.standbys.is_some() && figures.catalog_xmin_age.is_some());
    // What it was told to type is what helps.
    for grant in grants {
        session.batch_execute(grant).await.unwrap();
    }
    until_figures(&mut monitor, "everything", |figures| {
        figures.denied.is_empty() && figures.spill.is_some() && figures.wal_directory.is_some()
    })
    .await;
}

#[tokio::test]
async fn a_member_that_does_not_inherit_is_told_how_to_inherit() {
    for version in [15, 18] {
        let (server, session) = server(version, &[]).await;
        let make = "create role plain login replication noinherit; grant pg_monitor to plain";
        session.batch_execute(make).await.unwrap();
        let mut monitor = monitor_as(&server, "plain");
        let report = until_figures(&mut monitor, "figures", |_| true).await;
        let denied = report.watch.figures.unwrap().denied;
        assert_eq!(denied.len(), 2, "{denied:?}");
        session.batch_execute(&denied[0].grant).await.unwrap();
        until_figures(&mut monitor, "everything", |figures| figures.denied.is_empty()).await;
    }
}
