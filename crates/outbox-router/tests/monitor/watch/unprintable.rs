//! A row that the server cannot send, and the one way past it.

use outbox_router::postgres::Incoming;
use testbed::postgres::DatabaseSession;

use super::{
    server,
    warnings::{stream, until},
};

/// Reads the position at which the next transaction commits, from its Begin message.
fn begin(incoming: &Incoming<'_>) -> Option<u64> {
    match incoming {
        Incoming::Frame(frame) if frame.get(25) == Some(&b'B') => {
            Some(u64::from_be_bytes(frame.get(26..34)?.try_into().unwrap()))
        }
        _ => None,
    }
}

async fn insert(session: &DatabaseSession, key: &str, value: &str) {
    let row = format!(
        "insert into outbox_x (aggregate_type, aggregate_id, event_type, odd) \
         values ('a', '{key}', 't', {value})"
    );
    session.batch_execute(&row).await.unwrap();
}

/// `pg_replication_slot_advance` decodes without printing rows (`fast_forward` in
/// logicalfuncs.c), and the transactions whose commit record begins at the slot's position or
/// later are sent.
#[tokio::test]
async fn a_slot_that_is_advanced_past_a_row_which_cannot_be_printed_sends_the_next() {
    for version in [15, 18] {
        let (server, session) = server(version, &[]).await;
        // A type whose values can be stored, and never printed.
        let unprintable = "create domain odd as text; alter table outbox_x add odd odd; \
            update pg_type set typoutput = 'trigger_out'::regproc where typname = 'odd'";
        session.batch_execute(unprintable).await.unwrap();
        insert(&session, "1", "'x'").await;
        session.batch_execute("delete from outbox_x").await.unwrap();
        insert(&session, "2", "null").await;
        let mut failing = stream(&server).await;
        let commits_at = until(&mut failing, |incoming| begin(&incoming)).await;
        let error = until(&mut failing, |incoming| match incoming {
            Incoming::Error(message) => Some(message),
            _ => None,
        })
        .await;
        assert!(error.message.contains("trigger"), "{version}: {error}");
        drop(failing);

        // One byte past the beginning of its commit record.
        let advance = format!(
            "select pg_replication_slot_advance('s_x', '0/0'::pg_lsn + {})",
            commits_at + 1
        );
        // The walsender may hold the slot a moment longer.
        while session.batch_execute(&advance).await.is_err() {
            tokio::task::yield_now().await;
        }
        let mut next = stream(&server).await;
        let row = until(&mut next, |incoming| match incoming {
            Incoming::Frame(frame) if frame.get(25) == Some(&b'I') => Some(frame.to_vec()),
            Incoming::Error(message) => panic!("{version}: {message}"),
            _ => None,
        })
        .await;
        assert!(row.windows(6).any(|part| part == b"\0\0\0\x012t"), "{version}: the other row");
    }
}
