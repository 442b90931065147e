//! Everything a server can object to before the first row, told apart.

use outbox_router::{codes::hint, postgres::connect_failure};
use relay::Case;
use std::net::TcpListener;
use std::time::Duration;

use outbox_router::postgres::{
    ConnInfo, ConnectError, ConnectErrorKind, Options, ReplicationConnection, ServerErrorKind,
    TextQuery,
};

use crate::cluster::{Cluster, sql, value};
use crate::reader::{Event, next};

async fn connect(info: &ConnInfo) -> Result<ReplicationConnection, ConnectError> {
    ReplicationConnection::connect(info, &Options::default()).await
}

async fn start(cluster: &Cluster, slot: &str) -> Option<ServerErrorKind> {
    let connection = connect(&cluster.info("postgres")).await.unwrap();
    match connection.start_replication(slot, &["none"]).await {
        Ok(_) => None,
        Err(error) => error.kind(),
    }
}

#[tokio::test]
async fn a_role_without_replication_is_reported() {
    let cluster = Cluster::shared();
    let error = connect(&cluster.info("plain_user")).await.unwrap_err();
    let expected = ConnectErrorKind::Server(ServerErrorKind::NoReplicationPrivilege);
    assert_eq!(error.kind(), expected, "{error}");
    assert!(hint(&connect_failure(error)).unwrap().contains("alter role ROLE replication"));
}

/// The name of the view has the word replication in it; the role has what that word means.
#[tokio::test]
async fn a_view_that_may_not_be_read_is_named_with_its_grant() {
    let cluster = Cluster::shared();
    let admin = cluster.info("postgres");
    sql(&admin, "CREATE ROLE blind LOGIN REPLICATION").await;
    sql(&admin, "CREATE DATABASE unseen").await;
    let unseen = cluster.info_with("postgres", "dbname=unseen");
    sql(&unseen, "REVOKE SELECT ON pg_catalog.pg_replication_slots FROM public").await;
    let mut connection = connect(&cluster.info_with("blind", "dbname=unseen")).await.unwrap();
    let query = "SELECT slot_name FROM pg_replication_slots";
    let failure = connection.rows("the slots", query).await.map(|_| ()).unwrap_err();
    assert_eq!(failure.case, Some(Case::CatalogDenied), "{failure}");
    assert!(failure.message_with_causes().contains("pg_replication_slots"), "{failure}");
    let hint = hint(&failure).unwrap();
    assert!(hint.starts_with("grant select on pg_catalog.pg_replication_slots to "), "{hint}");
}

#[tokio::test]
async fn a_missing_database_is_distinguished_from_a_missing_role() {
    let cluster = Cluster::shared();
    let error = connect(&cluster.info_with("postgres", "dbname=nowhere")).await.unwrap_err();
    assert_eq!(error.kind(), ConnectErrorKind::Server(ServerErrorKind::DatabaseMissing), "{error}");
    let error = connect(&cluster.info("nobody")).await.unwrap_err();
    assert_eq!(error.kind(), ConnectErrorKind::Authentication, "{error}");
}

#[tokio::test]
async fn a_missing_slot_and_unfit_ones_are_distinguished() {
    let cluster = Cluster::shared();
    let admin = cluster.info("postgres");
    sql(
        &admin,
        "SELECT pg_create_logical_replication_slot('unfit_plugin', 'test_decoding');
         SELECT pg_create_physical_replication_slot('unfit_physical', true);
         CREATE DATABASE unfit_elsewhere",
    )
    .await;
    let elsewhere = cluster.info_with("postgres", "dbname=unfit_elsewhere");
    sql(&elsewhere, "SELECT pg_create_logical_replication_slot('unfit_database', 'pgoutput')")
        .await;
    assert_eq!(start(&cluster, "never_existed").await, Some(ServerErrorKind::SlotMissing));
    for slot in ["unfit_plugin", "unfit_physical", "unfit_database"] {
        assert_eq!(start(&cluster, slot).await, Some(ServerErrorKind::SlotUnsuitable), "{slot}");
    }
}

#[tokio::test]
async fn a_hostile_slot_name_is_refused_and_does_nothing_else() {
    let cluster = Cluster::shared();
    let admin = cluster.info("postgres");
    sql(&admin, "SELECT pg_create_logical_replication_slot('bystander', 'pgoutput')").await;
    for slot in [
        "a\"b",
        "bystander\" LOGICAL 0/0 (proto_version '1', publication_names 'x') --",
        "x\"; DROP_REPLICATION_SLOT \"bystander",
        "'); DROP",
        "",
    ] {
        assert!(start(&cluster, slot).await.is_some(), "{slot}");
    }
    let query = "SELECT active FROM pg_replication_slots WHERE slot_name = 'bystander'";
    assert_eq!(value(&admin, query).await, "f");
}

#[tokio::test]
async fn a_second_consumer_learns_which_process_holds_the_slot() {
    let cluster = Cluster::shared();
    let admin = cluster.info("postgres");
    // Without it, the first change that the server decodes would end the holder.
    sql(&admin, "CREATE PUBLICATION held_4711").await;
    sql(&admin, "SELECT pg_create_logical_replication_slot('held_4711', 'pgoutput')").await;
    let connection = connect(&admin).await.unwrap();
    let holder = connection.start_replication("held_4711", &["held_4711"]).await.unwrap();
    let pid = holder.backend_pid();
    assert!(pid.is_some());
    assert_eq!(start(&cluster, "held_4711").await, Some(ServerErrorKind::SlotInUse { pid }));
}

#[tokio::test]
async fn a_missing_publication_is_an_error_of_the_stream() {
    let cluster = Cluster::shared();
    let admin = cluster.info("postgres");
    sql(
        &admin,
        "CREATE TABLE public.unpublished (id int);
         SELECT pg_create_logical_replication_slot('unpublished', 'pgoutput');
         INSERT INTO public.unpublished VALUES (1)",
    )
    .await;
    let connection = connect(&admin).await.unwrap();
    let mut stream = connection.start_replication("unpublished", &["never made"]).await.unwrap();
    let version: u32 = value(&admin, "SHOW server_version_num").await.parse().unwrap();
    let message = loop {
        match next(&mut stream).await {
            // An error up to 17, a warning since.
            Event::Error(message) if version < 180_000 => break message,
            Event::Notice(message) if version >= 180_000 => break message,
            Event::Keepalive { .. } | Event::Other(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(message.kind(), ServerErrorKind::PublicationMissing, "{message}");
    assert!(message.message.contains("never made"), "{message}");
}

#[tokio::test]
async fn a_wal_level_below_logical_is_named() {
    let cluster = Cluster::start("wal_level = replica\n");
    let error = connect(&cluster.info("postgres"))
        .await
        .unwrap()
        .start_replication("any", &["none"])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Some(ServerErrorKind::WalLevel), "{error}");
    assert_eq!(error.kind(), Some(ServerErrorKind::WalLevel));
}

#[tokio::test]
async fn a_lost_slot_is_distinguished_from_every_other_failure() {
    let cluster = Cluster::start("max_slot_wal_keep_size = 1MB\nmin_wal_size = 32MB\n");
    let admin = cluster.info("postgres");
    sql(&admin, "SELECT pg_create_logical_replication_slot('lost', 'pgoutput')").await;
    let status = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'lost'";
    for _ in 0..20 {
        let segment = "SELECT pg_logical_emit_message(false, '', 'x'); SELECT pg_switch_wal()";
        sql(&admin, segment).await;
        sql(&admin, "CHECKPOINT").await;
    }
    assert_eq!(value(&admin, status).await, "lost");
    assert_eq!(start(&cluster, "lost").await, Some(ServerErrorKind::SlotLost));
}

#[tokio::test]
async fn too_many_walsenders_are_named() {
    let cluster = Cluster::start("max_wal_senders = 1\n");
    let info = cluster.info("postgres");
    let _first = connect(&info).await.unwrap();
    let error = connect(&info).await.unwrap_err();
    let expected = ConnectErrorKind::Server(ServerErrorKind::TooManyConnections);
    assert_eq!(error.kind(), expected, "{error}");
}

#[tokio::test]
async fn an_absent_server_and_a_silent_one_are_transport_failures() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = |port: u16, host: &str| {
        let text = format!("host={host} port={port} user=u connect_timeout=1 sslmode=disable");
        ConnInfo::resolve(Some(&text), &|_| None).unwrap()
    };
    let error = connect(&at(port, "127.0.0.1")).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
    let error = connect(&at(port, "/nonexistent")).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let info = at(silent.local_addr().unwrap().port(), "127.0.0.1");
    let error = connect(&info).await.unwrap_err();
    assert!(
        matches!(error, ConnectError::Timeout { after, .. } if after == Duration::from_secs(1))
    );
    assert_eq!(error.kind(), ConnectErrorKind::Transport);
}

#[tokio::test]
async fn a_peer_that_does_not_speak_the_protocol_is_reported() {
    for answer in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"R\xff\xff\xff\xff", b"R\0\0\0\x03"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            std::io::Write::write_all(&mut stream, answer).unwrap();
            stream
        });
        let text = format!("host=127.0.0.1 port={port} user=u sslmode=disable");
        let info = ConnInfo::resolve(Some(&text), &|_| None).unwrap();
        let error = connect(&info).await.unwrap_err();
        assert_eq!(error.kind(), ConnectErrorKind::Protocol, "{error:?}");
        drop(thread.join().unwrap());
    }
}
