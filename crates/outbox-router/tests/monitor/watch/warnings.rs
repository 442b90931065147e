//! What PostgreSQL's functions are called that warn within a stream, by which the router tells the
//! warnings apart.

use std::{future::poll_fn, time::Duration};

use outbox_router::postgres::{
    ConnInfo, Incoming, Options, ReplicationConnection, ReplicationStream, ServerErrorKind,
    ServerMessage,
};
use relay::ServerNotice;
use testbed::postgres::{DATABASE, DatabaseSession, PostgresServer, SUPERUSER, ShutdownMode};

use super::server;

const DEADLINE: Duration = Duration::from_secs(60);

pub(super) async fn stream(server: &PostgresServer) -> ReplicationStream {
    let info = ConnInfo::resolve(Some(&server.url(SUPERUSER, DATABASE)), &|_| None).unwrap();
    let connection = ReplicationConnection::connect(&info, &Options::default()).await.unwrap();
    connection.start_replication("s_x", &["p_x"]).await.unwrap()
}

/// The first message of the kind that `wanted` picks.
pub(super) async fn until<T>(
    stream: &mut ReplicationStream,
    wanted: impl Fn(Incoming<'_>) -> Option<T>,
) -> T {
    let read = async {
        loop {
            while let Some(incoming) = stream.peek().unwrap() {
                let found = wanted(incoming);
                stream.consume();
                if let Some(found) = found {
                    return found;
                }
            }
            poll_fn(|cx| stream.poll_fill(cx)).await.unwrap();
        }
    };
    tokio::time::timeout(DEADLINE, read).await.expect("something comes")
}

async fn warning(stream: &mut ReplicationStream) -> ServerMessage {
    until(stream, |incoming| match incoming {
        Incoming::Notice(message) => Some(message),
        Incoming::Error(message) => panic!("{message}"),
        _ => None,
    })
    .await
}

fn notice(message: &ServerMessage) -> ServerNotice {
    let (code, message, routine) =
        (message.code.clone(), message.message.clone(), message.routine.clone());
    ServerNotice { code, message, routine }
}

async fn insert(session: &DatabaseSession) {
    let row = "insert into outbox_x (aggregate_type, aggregate_id, event_type) \
               values ('a', '1', 't')";
    session.batch_execute(row).await.unwrap();
}

/// 17 and 18 use the SQLSTATE that 18 uses for rows which it skips.
#[tokio::test]
async fn a_walsender_that_waits_for_a_standby_says_so_and_not_that_it_skips_rows() {
    for version in [17, 18] {
        let (mut server, session) = server(version, &[]).await;
        let failover = "select pg_drop_replication_slot('s_x'); \
            select pg_create_logical_replication_slot('s_x', 'pgoutput', failover => true); \
            select pg_create_physical_replication_slot('p_x', true)";
        session.batch_execute(failover).await.unwrap();
        // The slot is called as the publication is.
        server.set(&[("synchronized_standby_slots", "p_x")]).await.unwrap();
        let mut stream = stream(&server).await;
        insert(&session).await;
        let said = warning(&mut stream).await;
        let shown = format!("{said:?}");
        assert_eq!(said.code, "55000", "{shown}");
        assert_eq!(said.routine.as_deref(), Some("StandbySlotsHaveCaughtup"), "{shown}");
        assert!(notice(&said).is_of_standby(), "{shown}");
        assert_eq!(notice(&said).rows_skipped("p_x"), None, "{shown}");
        // Without the name of the function, the text tells it.
        let nameless = ServerNotice { routine: None, ..notice(&said) };
        assert!(nameless.is_of_standby() && nameless.rows_skipped("p_x").is_none(), "{shown}");

        // A stopping server raises the same as an error. It is no lost slot.
        let error = async {
            until(&mut stream, |incoming| match incoming {
                Incoming::Error(message) => Some(Some(message)),
                Incoming::CopyDone | Incoming::Closed => Some(None),
                _ => None,
            })
            .await
        };
        let (error, stopped) = tokio::join!(error, server.stop(ShutdownMode::Fast, DEADLINE));
        stopped.unwrap();
        let error = error.expect("the walsender ends with an error");
        assert_eq!(error.kind(), ServerErrorKind::NotAccepting, "{error:?}");
    }
}

/// The rows of a time at which the publication did not exist.
#[tokio::test]
async fn a_walsender_that_skips_rows_is_known_by_its_function() {
    let (server, session) = server(18, &[]).await;
    let publication = "create publication p_x for table outbox_x with (publish = 'insert')";
    session.batch_execute("drop publication p_x").await.unwrap();
    insert(&session).await;
    session.batch_execute(publication).await.unwrap();
    let mut stream = stream(&server).await;
    let said = warning(&mut stream).await;
    assert_eq!((said.code.as_str(), said.routine.as_deref()), ("55000", Some("LoadPublications")));
    assert!(notice(&said).rows_skipped("p_x").is_some(), "{said:?}");
    let nameless = ServerNotice { routine: None, ..notice(&said) };
    assert!(nameless.rows_skipped("p_x").is_some(), "{said:?}");
}
