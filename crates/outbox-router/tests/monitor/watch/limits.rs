//! How long until PostgreSQL invalidates the slot, and for what.

use outbox_router::monitor::watch::limit::{SlotLimit, TimeToLimit};
use testbed::postgres::DATABASE;

use super::{monitor, server};
use crate::{fixture::MonitorFixture, postgres::stream_from};

async fn until_limit(monitor: &mut MonitorFixture, limit: SlotLimit) -> TimeToLimit {
    let report = monitor
        .until("a limit", |report| {
            let to_limit = report.watch.last.as_ref().and_then(|last| last.to_limit);
            to_limit.is_some_and(|first| first.limit == limit)
        })
        .await;
    let first = report.watch.last.unwrap().to_limit.unwrap();
    assert_eq!(report.seconds_to_limit, Some(first.seconds));
    first
}

#[tokio::test]
async fn max_slot_wal_keep_size_is_the_limit_where_it_is_set() {
    for version in [15, 18] {
        let (mut server, session) = server(version, &[("max_slot_wal_keep_size", "1GB")]).await;
        let mut monitor = monitor(&server);
        let first = until_limit(&mut monitor, SlotLimit::WalKeepSize).await;
        assert!(first.seconds > 0.0, "{first:?}");
        let limits = monitor.report.borrow().watch.figures.clone().unwrap().limits;
        assert_eq!(limits.wal_keep_bytes, Some(1 << 30));
        drop(session);
        server.set(&[("max_slot_wal_keep_size", "-1")]).await.unwrap();
        let unlimited = |report: &outbox_router::monitor::MonitorReport| {
            report.watch.figures.as_ref().is_some_and(|it| it.limits.wal_keep_bytes.is_none())
                && report.seconds_to_limit.is_none()
        };
        let report = monitor.until("no limit", unlimited).await;
        assert_eq!(report.watch.last.unwrap().to_limit, None);
    }
}

#[tokio::test]
async fn the_idle_timeout_of_18_counts_while_nobody_streams() {
    let settings = [("idle_replication_slot_timeout", "1h")];
    let (server, _session) = server(18, &settings).await;
    let mut monitor = monitor(&server);
    let first = until_limit(&mut monitor, SlotLimit::IdleTimeout).await;
    assert!(first.seconds > 3_000.0 && first.seconds <= 3_600.0, "{first:?}");
    let limits = monitor.report.borrow().watch.figures.clone().unwrap().limits;
    assert_eq!((limits.idle_timeout_seconds, limits.wal_keep_bytes), (Some(3_600.0), None));
    let streamer = stream_from(server.port(), DATABASE, "s_x", "p_x");
    let active = monitor
        .until("no limit", |report| {
            report.slot.health().is_some_and(|slot| slot.is_active())
                && report.seconds_to_limit.is_none()
        })
        .await;
    assert_eq!(active.watch.last.unwrap().to_limit, None);
    drop(streamer);
    until_limit(&mut monitor, SlotLimit::IdleTimeout).await;
}
