//! A backlog that is read by SQL, and the stream after it: together they are what the walsender
//! sends.

use std::pin::pin;

use outbox_router::postgres::{
    Backlog, BatchLimits, ConnInfo, CopiedSlot, Options, ReplicationConnection, ReplicationStream,
    connect_sql,
};
use pgoutput::Lsn;

use crate::cluster::{Cluster, sql, value};
use crate::reader::{Event, next};

/// Smaller than the longest transaction, and than some rows.
const BATCH: BatchLimits = BatchLimits { least: 1_000, most: 5_000 };

fn options() -> Options {
    Options { row_bytes: 256 * 1024, read_buffer: 64 * 1024, ..Options::default() }
}

/// A connection with a temporary copy of the slot, which has the same name with `suffix`.
async fn copied(info: &ConnInfo, slot: &str, suffix: &str) -> (ReplicationConnection, CopiedSlot) {
    let mut connection = ReplicationConnection::connect(info, &options()).await.unwrap();
    let name = format!("{slot}_{suffix}");
    let statement =
        format!("SELECT lsn FROM pg_copy_logical_replication_slot('{slot}', '{name}', true)");
    let rows = connection.query("copy", &statement).await.unwrap();
    let begins_at = rows[0][0].as_deref().unwrap().parse().unwrap();
    (connection, CopiedSlot { name, begins_at })
}

async fn flushed(info: &ConnInfo) -> Lsn {
    value(info, "SELECT pg_current_wal_flush_lsn()").await.parse().unwrap()
}

fn is_row_of(event: &Event, mark: &str) -> bool {
    let contains = |bytes: &[u8]| bytes.windows(mark.len()).any(|part| part == mark.as_bytes());
    matches!(event, Event::Insert(tuple) if contains(tuple))
}

/// Everything up to the row with this mark, but for Relation messages and keepalives, of which
/// there may be more or fewer.
async fn read_to(stream: &mut ReplicationStream, mark: &str) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        match next(stream).await {
            Event::Keepalive { .. } | Event::Other(b'R') => {}
            Event::Oversized { announced, mut prefix } => {
                // Two positions and a time, which a backend does not send; and it is cut elsewhere.
                prefix.drain(..25);
                prefix.truncate(60_000);
                events.push(Event::Oversized { announced, prefix });
            }
            event => {
                let is_last = is_row_of(&event, mark);
                events.push(event);
                if is_last {
                    return events;
                }
            }
        }
    }
}

async fn writes(info: &ConnInfo, table: &str) {
    sql(info, &format!("INSERT INTO public.{table} VALUES (1, 'first')")).await;
    let single = format!("INSERT INTO public.{table} VALUES");
    for number in 0..40 {
        sql(info, &format!("{single} ({number}, 'single {number}')")).await;
    }
    // Longer than a batch, with rows that were rolled back.
    sql(
        info,
        &format!(
            "BEGIN; {single} (100, 'kept'); SAVEPOINT s; {single} (101, 'rolled back'); \
             ROLLBACK TO s; INSERT INTO public.{table} SELECT n, 'of many ' || n \
             FROM generate_series(200, 230) n; COMMIT"
        ),
    )
    .await;
    sql(info, &format!("BEGIN; {single} (300, 'of no transaction'); ROLLBACK")).await;
    // Rows have the names and columns of their time.
    sql(info, &format!("ALTER TABLE public.{table} RENAME body TO text")).await;
    sql(info, &format!("{single} (301, 'renamed')")).await;
    sql(info, &format!("ALTER TABLE public.{table} ADD more int DEFAULT 5")).await;
    sql(info, &format!("{single} (302, 'wider'), (303, repeat('x', 200000))")).await;
    sql(info, &format!("{single} (304, 'key' || repeat('y', 2000000))")).await;
}

/// One transaction is open where the backlog ends, and one commits after it. Whatever position
/// divides the two, each transaction is in one of them.
#[tokio::test]
async fn backlog_and_stream_are_what_the_walsender_sends() {
    let cluster = Cluster::shared();
    let info = cluster.info("postgres");
    sql(
        &info,
        "CREATE TABLE public.behind (id int, body text);
         CREATE TABLE public.beside (id int, body text);
         CREATE PUBLICATION behind FOR TABLE public.behind, public.beside WITH (publish = 'insert');
         SELECT pg_create_logical_replication_slot('behind', 'pgoutput')",
    )
    .await;
    let (writer, connection) = connect_sql(&info, "writer").await.unwrap();
    let mut connection = pin!(connection);
    let story = async {
        writer.batch_execute("BEGIN; INSERT INTO public.beside VALUES (0, 'open')").await.unwrap();
        let mut ends = vec![flushed(&info).await];
        writes(&info, "behind").await;
        ends.push(flushed(&info).await);
        writer.batch_execute("COMMIT").await.unwrap();
        ends.push(flushed(&info).await);
        sql(&info, "INSERT INTO public.behind VALUES (400, 'after')").await;
        ends.push(flushed(&info).await);
        sql(&info, "INSERT INTO public.behind VALUES (500, 'the last')").await;
        ends
    };
    let ends = tokio::select! {
        ends = story => ends,
        ended = &mut connection => panic!("the writer's connection ended: {ended:?}"),
    };

    let position = "SELECT confirmed_flush_lsn || ' ' || active FROM pg_replication_slots \
                    WHERE slot_name = 'behind'";
    let begins = value(&info, position).await;
    let begins = begins.split(' ').next().unwrap_or_default();

    let (connection, copy) = copied(&info, "behind", "reference").await;
    let mut stream = connection.start_replication(&copy.name, &["behind"]).await.unwrap();
    let expected = read_to(&mut stream, "the last").await;
    assert!(expected.len() > 150, "{}", expected.len());
    assert!(expected.iter().any(|event| matches!(event, Event::Oversized { .. })));
    drop(stream);

    // Also in the middle of a record.
    let middles: Vec<Lsn> = ends.iter().map(|end| Lsn::from_u64(end.as_u64() - 11)).collect();
    let by_each = |until| [(until, Connections::One), (until, Connections::Two)];
    let cases = ends.into_iter().chain(middles).flat_map(by_each);
    for (number, (until, connections)) in cases.enumerate() {
        let mut stream = divided(&info, number, until, connections).await;
        assert_eq!(stream.backlog_until(), Some(until));
        let seen = read_to(&mut stream, "the last").await;
        assert_eq!(stream.backlog_until(), None, "the walsender has sent the last row");
        assert_same(&seen, &expected, until);
        assert_eq!(value(&info, position).await, format!("{begins} true"), "it stays, and is held");
        drop(stream);
        // The walsender may hold the slot a moment longer.
        let free =
            "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'behind' AND active";
        while value(&info, free).await != "0" {
            tokio::task::yield_now().await;
        }
    }
}

/// By how many connections a backlog is read.
#[derive(Clone, Copy)]
enum Connections {
    One,
    /// In turns.
    Two,
}

/// What the slot has before `until` by SQL, and then the walsender's.
async fn divided(
    info: &ConnInfo,
    number: usize,
    until: Lsn,
    connections: Connections,
) -> ReplicationStream {
    let (connection, copy) = copied(info, "behind", &format!("backlog_{number}")).await;
    let other = match connections {
        Connections::One => None,
        Connections::Two => {
            let (connection, copy) = copied(info, "behind", &format!("other_{number}")).await;
            Some(connection.with_copy(copy))
        }
    };
    let backlog = Backlog::new(connection.with_copy(copy), other, &["behind"], until, BATCH);
    let holder = ReplicationConnection::connect(info, &options()).await.unwrap();
    holder.start_replication_after(backlog, "behind", &["behind"]).await.unwrap()
}

fn assert_same(seen: &[Event], expected: &[Event], until: Lsn) {
    let differs = seen.iter().zip(expected).position(|(seen, expected)| seen != expected);
    if let Some(at) = differs {
        let shown = |event: &Event| format!("{event:?}").chars().take(300).collect::<String>();
        let (seen, expected) = (shown(&seen[at]), shown(&expected[at]));
        panic!("divided at {until}, event {at}: {seen} in place of {expected}");
    }
    assert_eq!(seen.len(), expected.len(), "divided at {until}");
}
