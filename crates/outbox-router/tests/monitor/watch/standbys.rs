//! Which standbys the slot's walsender waits for.

use std::{io::Write as _, net::TcpStream};

use outbox_router::monitor::watch::figures::{StandbySlot, StandbySlotState, Standbys};
use testbed::postgres::{DatabaseSession, PostgresServer};

use super::{any_figures, monitor, server, until_figures};

/// Streams from a physical slot as a standby does, without reading what comes, until the socket is
/// closed. The prebuilt servers come without `pg_receivewal`.
///
/// It begins where WAL is flushed: further on, where it is only written, the server refuses.
async fn receive(server: &PostgresServer, session: &DatabaseSession, slot: &str) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let parameters = b"user\0postgres\0replication\0true\0\0";
    let mut startup = Vec::new();
    startup.extend(u32::try_from(8 + parameters.len()).unwrap().to_be_bytes());
    startup.extend(196_608_u32.to_be_bytes());
    startup.extend(parameters);
    let flushed = "select pg_current_wal_flush_lsn()::text";
    let lsn: String = session.query_one(flushed, &[]).await.unwrap().get(0);
    let command = format!("START_REPLICATION SLOT {slot} PHYSICAL {lsn}\0");
    startup.push(b'Q');
    startup.extend(u32::try_from(4 + command.len()).unwrap().to_be_bytes());
    startup.extend(command.as_bytes());
    socket.write_all(&startup).unwrap();
    socket
}

fn states(standbys: &Standbys) -> Vec<(&str, StandbySlotState)> {
    standbys.named.iter().map(|slot| (slot.name.as_str(), slot.state)).collect()
}

fn blocking(standbys: &Standbys) -> Vec<&str> {
    standbys.blocking().map(|slot| slot.name.as_str()).collect()
}

#[tokio::test]
async fn a_named_slot_that_is_missing_or_unused_blocks_a_failover_slot() {
    for version in [17, 18] {
        let (mut server, session) = server(version, &[]).await;
        let mut monitor = monitor(&server);
        let standbys = any_figures(&mut monitor).await.standbys.unwrap();
        assert_eq!(
            (standbys.failover, standbys.named.len(), standbys.active_physical_slots),
            (false, 0, 0)
        );
        let slots = "select pg_create_physical_replication_slot('near', true); \
                     select pg_create_physical_replication_slot('far', true)";
        session.batch_execute(slots).await.unwrap();
        let names = [("synchronized_standby_slots", "near, \"gone\",far")];
        server.set(&names).await.unwrap();
        let _receiver = receive(&server, &session, "near").await;
        let report = until_figures(&mut monitor, "a standby", |figures| {
            figures.standbys.as_ref().is_some_and(|standbys| standbys.active_physical_slots == 1)
        })
        .await;
        let standbys = report.watch.figures.unwrap().standbys.unwrap();
        assert_eq!(
            states(&standbys),
            [
                ("near", StandbySlotState::Active),
                ("gone", StandbySlotState::Missing),
                ("far", StandbySlotState::Inactive)
            ]
        );
        assert!(
            matches!(&standbys.named[1], StandbySlot { bytes_behind: None, .. })
                && standbys.named[2].bytes_behind.is_some()
        );
        // Nobody waits for them on behalf of this slot.
        assert_eq!(blocking(&standbys), [""; 0]);
        let failover = "select pg_drop_replication_slot('s_x'); \
            select pg_create_logical_replication_slot('s_x', 'pgoutput', failover => true)";
        session.batch_execute(failover).await.unwrap();
        let report = until_figures(&mut monitor, "failover", |figures| {
            figures.standbys.as_ref().is_some_and(|standbys| standbys.failover)
        })
        .await;
        let standbys = report.watch.figures.unwrap().standbys.unwrap();
        assert_eq!(blocking(&standbys), ["gone", "far"]);
    }
}
