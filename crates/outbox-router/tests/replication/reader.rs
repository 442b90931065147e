//! A reader that is good enough for tests: it takes frames apart by position and answers
//! keepalives.

use std::future::poll_fn;

use outbox_router::postgres::{Incoming, ReplicationStream, STATUS_UPDATE_BYTES, ServerMessage};

use crate::cluster::DEADLINE;

/// What a test looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Insert(Vec<u8>),
    Oversized { announced: usize, prefix: Vec<u8> },
    Commit { end_lsn: u64 },
    Keepalive { wal_end: u64 },
    Other(u8),
    Notice(ServerMessage),
    CopyDone,
    Error(ServerMessage),
    Closed,
}

/// What comes next, consumed.
pub(crate) async fn next(stream: &mut ReplicationStream) -> Event {
    let read = async {
        loop {
            if let Some(event) = stream.peek().unwrap().map(|incoming| event(&incoming)) {
                stream.consume();
                return event;
            }
            poll_fn(|cx| stream.poll_fill(cx)).await.unwrap();
        }
    };
    tokio::time::timeout(DEADLINE, read).await.expect("something comes")
}

/// The first event that `wanted` picks.
pub(crate) async fn until<T>(
    stream: &mut ReplicationStream,
    wanted: impl Fn(Event) -> Option<T>,
) -> T {
    loop {
        let event = next(stream).await;
        assert!(!matches!(event, Event::Error(_) | Event::Closed), "{event:?}");
        if let Some(found) = wanted(event) {
            return found;
        }
    }
}

/// The end of the next transaction.
pub(crate) async fn commit(stream: &mut ReplicationStream) -> u64 {
    let wanted = |event| match event {
        Event::Commit { end_lsn } => Some(end_lsn),
        _ => None,
    };
    until(stream, wanted).await
}

/// Sends a status update that confirms `lsn`.
pub(crate) async fn confirm(stream: &mut ReplicationStream, lsn: u64) {
    let mut update = [0; STATUS_UPDATE_BYTES];
    update[0] = b'r';
    for field in [1..9, 9..17, 17..25] {
        update[field].copy_from_slice(&lsn.to_be_bytes());
    }
    stream.queue_status(&update);
    flush(stream).await;
}

pub(crate) async fn flush(stream: &mut ReplicationStream) {
    poll_fn(|cx| stream.poll_flush_out(cx)).await.unwrap();
}

fn event(incoming: &Incoming<'_>) -> Event {
    match incoming {
        Incoming::Frame(frame) => match (frame[0], frame.get(25)) {
            (b'k', _) => Event::Keepalive { wal_end: number(&frame[1..9]) },
            (b'w', Some(b'I')) => Event::Insert(frame[25..].to_vec()),
            (b'w', Some(b'C')) => Event::Commit { end_lsn: number(&frame[35..43]) },
            (b'w', Some(kind)) => Event::Other(*kind),
            (kind, _) => panic!("unknown frame {kind}"),
        },
        Incoming::Oversized { announced, prefix } => {
            Event::Oversized { announced: *announced, prefix: prefix.to_vec() }
        }
        Incoming::Notice(notice) => Event::Notice(notice.clone()),
        Incoming::CopyDone => Event::CopyDone,
        Incoming::Error(error) => Event::Error(error.clone()),
        Incoming::Closed => Event::Closed,
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}
