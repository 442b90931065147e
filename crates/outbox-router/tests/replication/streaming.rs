//! A running stream of a real walsender.

use outbox_router::postgres::{
    ConnInfo, ConnectErrorKind, Options, ReplicationConnection, ReplicationStream, quote_identifier,
};

use crate::cluster::{Cluster, DEADLINE, sql, value};
use crate::reader::{Event, commit, confirm, flush, next, until};

/// A table, a publication and a slot, all called `name`.
async fn set_up(admin: &ConnInfo, name: &str) {
    sql(
        admin,
        &format!(
            "CREATE TABLE public.{name} (id int, body text);
             CREATE PUBLICATION {name} FOR TABLE public.{name} WITH (publish = 'insert');
             SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')"
        ),
    )
    .await;
}

async fn stream(info: &ConnInfo, name: &str, options: &Options) -> ReplicationStream {
    let connection = ReplicationConnection::connect(info, options).await.unwrap();
    connection.start_replication(name, &[name]).await.unwrap()
}

async fn insert(stream: &mut ReplicationStream) -> Vec<u8> {
    let wanted = |event| match event {
        Event::Insert(tuple) => Some(tuple),
        _ => None,
    };
    until(stream, wanted).await
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

async fn lsn(admin: &ConnInfo, slot: &str) -> u64 {
    let text = format!(
        "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{slot}'"
    );
    value(admin, &text).await.parse().unwrap()
}

#[tokio::test]
async fn rows_come_in_order_and_a_status_update_moves_the_slot() {
    let cluster = Cluster::shared();
    for (name, info) in
        [("over_tcp", cluster.info("postgres")), ("over_socket", cluster.socket_info("postgres"))]
    {
        set_up(&info, name).await;
        let mut stream = stream(&info, name, &Options::default()).await;
        for at in 1..=3 {
            sql(&info, &format!("INSERT INTO public.{name} VALUES ({at}, 'row {at}')")).await;
            assert!(contains(&insert(&mut stream).await, &format!("row {at}")));
        }
        let end_lsn = commit(&mut stream).await;
        assert!(lsn(&info, name).await < end_lsn);
        confirm(&mut stream, end_lsn).await;
        // The server's half of the copy ends only after it has read the status before our end.
        stream.queue_copy_done();
        flush(&mut stream).await;
        while next(&mut stream).await != Event::CopyDone {}
        assert_eq!(lsn(&info, name).await, end_lsn);
    }
}

#[tokio::test]
async fn a_publication_may_have_any_name() {
    let cluster = Cluster::shared();
    let info = cluster.info("postgres");
    sql(&info, "CREATE TABLE public.odd (id int, body text)").await;
    let names = ["o'clock \"sharp\"", "with, comma", "back\\slash", "Ünï"];
    for name in names {
        let name = quote_identifier(name);
        sql(&info, &format!("CREATE PUBLICATION {name} FOR TABLE public.odd")).await;
    }
    sql(&info, "SELECT pg_create_logical_replication_slot('odd', 'pgoutput')").await;
    sql(&info, "INSERT INTO public.odd VALUES (1, 'found')").await;
    let connection = ReplicationConnection::connect(&info, &Options::default()).await.unwrap();
    let mut stream = connection.start_replication("odd", &names).await.unwrap();
    assert!(contains(&insert(&mut stream).await, "found"));
}

#[tokio::test]
async fn a_reconnected_stream_begins_at_the_slots_position() {
    let cluster = Cluster::shared();
    let info = cluster.info("postgres");
    set_up(&info, "resumed").await;
    let mut first = stream(&info, "resumed", &Options::default()).await;
    for text in ["confirmed", "not confirmed"] {
        sql(&info, &format!("INSERT INTO public.resumed VALUES (1, '{text}')")).await;
    }
    let end_lsn = commit(&mut first).await;
    commit(&mut first).await;
    confirm(&mut first, end_lsn).await;
    first.queue_copy_done();
    flush(&mut first).await;
    while next(&mut first).await != Event::CopyDone {}
    drop(first);
    let reconnect = async {
        loop {
            let connection =
                ReplicationConnection::connect(&info, &Options::default()).await.unwrap();
            // The old walsender may hold the slot a moment longer.
            if let Ok(stream) = connection.start_replication("resumed", &["resumed"]).await {
                return stream;
            }
        }
    };
    let mut second = tokio::time::timeout(DEADLINE, reconnect).await.unwrap();
    assert!(contains(&insert(&mut second).await, "not confirmed"));
}

#[tokio::test]
async fn an_oversized_row_is_reported_and_its_neighbours_are_whole() {
    let cluster = Cluster::shared();
    let info = cluster.info("postgres");
    set_up(&info, "oversized").await;
    let options = Options { row_bytes: 256 * 1024, read_buffer: 64 * 1024, ..Options::default() };
    let mut stream = stream(&info, "oversized", &options).await;
    sql(
        &info,
        "INSERT INTO public.oversized VALUES (1, 'before'), (2, repeat('x', 200000)), \
         (3, 'key' || repeat('y', 20000000)), (4, 'after')",
    )
    .await;
    assert!(contains(&insert(&mut stream).await, "before"));
    assert_eq!(insert(&mut stream).await.iter().filter(|byte| **byte == b'x').count(), 200_000);
    let (announced, prefix) = until(&mut stream, |event| match event {
        Event::Oversized { announced, prefix } => Some((announced, prefix)),
        Event::Insert(tuple) => panic!("{} bytes as a whole row", tuple.len()),
        _ => None,
    })
    .await;
    assert!(announced > 20_000_000, "{announced}");
    assert_eq!((prefix[0], prefix[25]), (b'w', b'I'), "the prefix begins with the frame");
    assert!(contains(&prefix, "keyyyy"));
    assert!(stream.buffer_bytes() < 1024 * 1024, "{}", stream.buffer_bytes());
    assert!(contains(&insert(&mut stream).await, "after"));
}

#[tokio::test]
async fn a_stopping_server_ends_the_stream() {
    let cluster = Cluster::start("");
    let info = cluster.info("postgres");
    set_up(&info, "stopping").await;
    let mut stream = stream(&info, "stopping", &Options::default()).await;
    sql(&info, "INSERT INTO public.stopping VALUES (1, 'last')").await;
    let mut confirmed = commit(&mut stream).await;
    confirm(&mut stream, confirmed).await;
    let mut stop = cluster.begin_fast_stop();
    // A server stops once everything is confirmed, its own last words included: keepalives carry
    // their position.
    loop {
        match next(&mut stream).await {
            Event::Keepalive { wal_end } => {
                confirmed = confirmed.max(wal_end);
                confirm(&mut stream, confirmed).await;
            }
            Event::CopyDone => break,
            Event::Other(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(next(&mut stream).await, Event::Closed);
    assert!(stop.wait().unwrap().success());
    let error = ReplicationConnection::connect(&info, &Options::default()).await.unwrap_err();
    assert_eq!(error.kind(), ConnectErrorKind::Transport, "{error:?}");
}

#[tokio::test]
async fn a_terminated_walsender_is_an_error_with_its_code() {
    let cluster = Cluster::shared();
    let info = cluster.info("postgres");
    set_up(&info, "terminated").await;
    let mut stream = stream(&info, "terminated", &Options::default()).await;
    let pid = stream.backend_pid().unwrap();
    sql(&info, &format!("SELECT pg_terminate_backend({pid})")).await;
    let message = loop {
        match next(&mut stream).await {
            Event::Error(message) => break message,
            Event::Closed => panic!("closed without a word"),
            _ => {}
        }
    };
    assert_eq!((&*message.severity, &*message.code), ("FATAL", "57P01"), "{message}");
    assert_eq!(next(&mut stream).await, Event::Closed);
}
