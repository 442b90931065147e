//! Who holds the slot back.

use std::time::Duration;

use outbox_router::monitor::pins::PinHolder;
use testbed::postgres::ShutdownMode;

use super::{any_figures, monitor, server, until_figures};

#[tokio::test]
async fn open_transactions_are_named_with_what_ends_them_the_oldest_first() {
    for version in [15, 18] {
        let (server, session) = server(version, &[]).await;
        let mut monitor = monitor(&server);
        assert_eq!(any_figures(&mut monitor).await.pins, []);
        let [idle, prepared, reader] = [
            server.connect().await.unwrap(),
            server.connect().await.unwrap(),
            server.connect().await.unwrap(),
        ];
        // It has a snapshot and no transaction id, and holds no slot back.
        reader
            .batch_execute("begin isolation level repeatable read; select count(*) from n")
            .await
            .unwrap();
        let write = "set application_name = 'forgotten'; begin; insert into n values (1)";
        idle.batch_execute(write).await.unwrap();
        let pid: i32 = idle.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        session.batch_execute("insert into n values (2)").await.unwrap();
        let orphan = "begin; insert into n values (3); prepare transaction 'orphan'";
        prepared.batch_execute(orphan).await.unwrap();
        let report = until_figures(&mut monitor, "both", |figures| figures.pins.len() == 2).await;
        let pins = report.watch.figures.unwrap().pins;
        let application = Some("forgotten".to_owned());
        assert_eq!(pins[0].holder, PinHolder::Backend { pid, application });
        assert_eq!(pins[0].state.as_deref(), Some("idle in transaction"));
        assert_eq!(pins[0].user.as_deref(), Some("postgres"));
        assert_eq!(pins[0].database.as_deref(), Some("shop"));
        let (open, statement) = (pins[0].seconds.unwrap(), pins[0].query_seconds.unwrap());
        assert!(open >= statement && statement >= 0.0, "{pins:?}");
        assert!(pins[0].xid_age > pins[1].xid_age, "{pins:?}");
        assert_eq!(pins[1].holder, PinHolder::Prepared { gid: "orphan".to_owned() });
        assert_eq!(pins[1].user.as_deref(), Some("postgres"));
        assert_eq!((pins[1].state.as_deref(), pins[1].query_seconds), (None, None));
        // The slot retains little: nobody is named as the cause of that.
        assert_eq!(report.pin, None);
        idle.batch_execute("rollback").await.unwrap();
        session.batch_execute("rollback prepared 'orphan'").await.unwrap();
        until_figures(&mut monitor, "none", |figures| figures.pins.is_empty()).await;
    }
}

#[tokio::test]
async fn a_slot_that_retains_far_more_than_is_unconfirmed_names_the_oldest_transaction() {
    let (mut server, session) = server(15, &[]).await;
    let mut monitor = monitor(&server);
    let idle = server.connect().await.unwrap();
    idle.batch_execute("begin; insert into n values (1)").await.unwrap();
    // Written and confirmed, while the slot's `restart_lsn` stays.
    let advance = "do $$ begin for i in 1..70 loop \
                     perform pg_logical_emit_message(false, 'noise', repeat('x', 1 << 20)); \
                   end loop; end $$; \
                   select pg_switch_wal(); \
                   select pg_replication_slot_advance('s_x', pg_current_wal_lsn())";
    session.batch_execute(advance).await.unwrap();
    let report = monitor.until("a pin", |report| report.pin.is_some()).await;
    let (pin, figures) = (report.pin.unwrap(), report.watch.figures.unwrap());
    assert_eq!(Some(&pin), figures.pins.first());
    assert_eq!(pin.state.as_deref(), Some("idle in transaction"));
    // An alert on it does not end because nobody looks any more: the figures alone are not read,
    // and then nothing is.
    session.batch_execute("alter function pg_ls_waldir() rename to gone").await.unwrap();
    let slow = monitor.until("a note", |report| report.watch.trouble.is_some()).await;
    assert_eq!(slow.pin.map(|seen| seen.holder), Some(pin.holder.clone()));
    session.batch_execute("alter function gone() rename to pg_ls_waldir").await.unwrap();
    monitor.until("figures again", |report| report.watch.trouble.is_none()).await;
    drop((idle, session));
    server.stop(ShutdownMode::Immediate, Duration::from_secs(30)).await.unwrap();
    let down = monitor.until("trouble", |report| report.trouble.is_some()).await;
    assert_eq!(down.pin.map(|seen| seen.holder), Some(pin.holder));
    assert_eq!(down.decided, Some(0));
}
