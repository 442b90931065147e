//! What is known while PostgreSQL does not answer.

use std::time::Duration;

use outbox_router::monitor::ObservedSlot;
use testbed::postgres::ShutdownMode;

use super::{monitor, server};

#[tokio::test]
async fn the_last_values_stay_while_the_server_is_down() {
    for version in [15, 18] {
        let (mut server, session) = server(version, &[("max_slot_wal_keep_size", "1GB")]).await;
        let mut monitor = monitor(&server);
        let before = monitor
            .until("rates and figures", |report| {
                report.rates.is_some() && report.watch.figures.is_some()
            })
            .await;
        drop(session);
        server.stop(ShutdownMode::Immediate, Duration::from_secs(30)).await.unwrap();
        let down = monitor.until("trouble", |report| report.trouble.is_some()).await;
        assert_eq!(down.slot, ObservedSlot::Unknown);
        assert_eq!((down.rates, down.seconds_to_limit), (None, None));
        let last = down.watch.last.clone().unwrap();
        assert_eq!(Some(last.read), down.polled_at);
        let slot = before.slot.health().unwrap();
        assert_eq!(last.slot.unwrap().confirmed_flush_lsn, slot.confirmed_flush_lsn);
        assert!(last.rates.is_some() && last.to_limit.is_some(), "{:?}", down.watch.last);
        assert!(last.server_clock > 1_700_000_000.0);
        let figures = down.watch.figures.clone().unwrap();
        assert_eq!(figures.limits.wal_keep_bytes, Some(1 << 30));
        // It is the same an hour later.
        monitor.rounds(3).await;
        assert_eq!(monitor.report.borrow().watch, down.watch);

        server.start_again().await.unwrap();
        monitor
            .until("newer values", |report| {
                report.trouble.is_none()
                    && report.watch.figures.as_ref().is_some_and(|it| it.read.at > figures.read.at)
            })
            .await;
        let session = server.connect().await.unwrap();
        session.batch_execute("select pg_drop_replication_slot('s_x')").await.unwrap();
        let missing = monitor.until("no slot", |report| report.slot == ObservedSlot::Missing).await;
        let last = missing.watch.last.unwrap();
        assert_eq!((last.slot, last.rates, last.to_limit), (None, None, None));
    }
}
