//! A backlog, and the stream after it, against two scripted servers at the other ends of two socket
//! pairs.

use std::future::poll_fn;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::*;
use crate::postgres::frames::FrameLimits;
use crate::postgres::transport::Transport;
use crate::postgres::{Incoming, ReplicationStream};

const LIMITS: BatchLimits = BatchLimits { least: 1_000, most: 9_000 };
const FRAMES: FrameLimits = FrameLimits { read_buffer: 64 * 1024, row_bytes: 1024 * 1024 };
const UNTIL: u64 = 0x500;

/// The server's ends.
struct Servers {
    backend: UnixStream,
    walsender: UnixStream,
}

fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
    bytes.extend(body);
    bytes
}

fn row(at: u64, data: &[u8]) -> Vec<u8> {
    let mut row = 3_i16.to_be_bytes().to_vec();
    row.extend(8_i32.to_be_bytes());
    row.extend(at.to_be_bytes());
    row.extend(4_i32.to_be_bytes());
    row.extend(750_u32.to_be_bytes());
    row.extend(i32::try_from(data.len()).unwrap().to_be_bytes());
    row.extend(data);
    frame(b'd', &row)
}

/// The answer to a statement of one column and one row.
fn answer(value: &str) -> Vec<u8> {
    let mut row = 1_i16.to_be_bytes().to_vec();
    row.extend(i32::try_from(value.len()).unwrap().to_be_bytes());
    row.extend(value.as_bytes());
    let columns = [&1_i16.to_be_bytes()[..], b"column\0", &[0; 18]].concat();
    [frame(b'T', &columns), frame(b'D', &row), frame(b'C', b"SELECT 1\0")].concat()
}

/// What ends a batch after which the copy stands here.
fn stands_at(position: &str) -> Vec<u8> {
    let trailer = frame(b'd', &(-1_i16).to_be_bytes());
    let end = [frame(b'c', b""), frame(b'C', b"COPY 1\0")].concat();
    [trailer, end, answer(position), frame(b'Z', b"I")].concat()
}

/// What begins a batch of a copy that was made anew, and begins here.
fn made_at(position: &str) -> Vec<u8> {
    [answer(""), answer(position), frame(b'H', b"")].concat()
}

fn link(socket: UnixStream) -> Link {
    Link::new(Transport::Unix(socket), FRAMES)
}

/// The owner of a copy, and its server's end.
fn owner(name: &str) -> (SlotCopyOwner, UnixStream) {
    let (socket, backend) = UnixStream::pair().unwrap();
    let copy = CopiedSlot { name: name.to_owned(), begins_at: Lsn::from_u64(0x100) };
    (SlotCopyOwner::new(link(socket), copy), backend)
}

fn stream_after(backlog: Backlog) -> (ReplicationStream, UnixStream) {
    let (stream, walsender) = UnixStream::pair().unwrap();
    (ReplicationStream::after(backlog, link(stream)), walsender)
}

fn reading() -> (ReplicationStream, Servers) {
    let (owner, backend) = owner("copy");
    let backlog = Backlog::new(owner, None, &["p"], Lsn::from_u64(UNTIL), LIMITS);
    let (stream, walsender) = stream_after(backlog);
    (stream, Servers { backend, walsender })
}

/// Consumes what comes next, and returns it as text.
async fn next(stream: &mut ReplicationStream) -> String {
    loop {
        let shown = stream.peek().unwrap().map(|incoming| {
            // Two positions and a time differ from a walsender's.
            if let Incoming::Frame([b'w', frame @ ..]) = incoming {
                return String::from_utf8_lossy(&frame[24..]).into_owned();
            }
            format!("{incoming:?}")
        });
        if let Some(shown) = shown {
            stream.consume();
            return shown;
        }
        poll_fn(|cx| stream.poll_fill(cx)).await.unwrap();
    }
}

/// How many batches are asked for.
async fn asked(stream: &mut ReplicationStream, servers: &mut Servers) -> usize {
    let text = statements(stream, &mut servers.backend).await;
    let count = text.matches("pg_logical_slot_get_binary_changes('copy',").count();
    assert_eq!(text.matches("least('0/500'::pg_catalog.pg_lsn").count(), count, "{text}");
    assert_eq!(text.matches("< '0/500'::pg_catalog.pg_lsn").count(), count, "{text}");
    assert_eq!(text.matches("least(9000, greatest(1000,").count(), count, "{text}");
    assert!(!text.contains("pg_copy_logical"), "{text}");
    count
}

/// What the router asks this backend.
async fn statements(stream: &mut ReplicationStream, backend: &mut UnixStream) -> String {
    poll_fn(|cx| stream.poll_flush_out(cx)).await.unwrap();
    let mut statements = vec![0; 64 * 1024];
    let length = backend.read(&mut statements).await.unwrap();
    String::from_utf8_lossy(&statements[..length]).into_owned()
}

fn is_silent(backend: &UnixStream) -> bool {
    let read = backend.try_read(&mut [0; 1]);
    read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn batches_come_until_the_copy_stands_at_the_end_and_then_the_walsender_is_heard() {
    let (mut stream, mut servers) = reading();
    assert_eq!(asked(&mut stream, &mut servers).await, 2);
    servers.walsender.write_all(&frame(b'd', &[&[b'w'; 25][..], b"later"].concat())).await.unwrap();
    // Without rows, too, a batch is not the last while the copy moves.
    let first = [frame(b'H', b""), row(0x110, b"one"), row(0x120, b"two"), stands_at("0/120")];
    let second = [frame(b'H', b""), stands_at("0/200")];
    servers.backend.write_all(&[first.concat(), second.concat()].concat()).await.unwrap();
    assert_eq!(next(&mut stream).await, "one");
    assert_eq!(next(&mut stream).await, "two");
    assert_eq!(stream.peek(), Ok(None));
    assert_eq!(asked(&mut stream, &mut servers).await, 2, "in place of both");
    assert_eq!(stream.backlog_until(), Some(Lsn::from_u64(UNTIL)));
    let third = [frame(b'H', b""), row(0x4ff, b"three"), stands_at("0/500")].concat();
    servers.backend.write_all(&third).await.unwrap();
    assert_eq!(next(&mut stream).await, "three");
    assert_eq!(next(&mut stream).await, "later");
    assert_eq!(stream.backlog_until(), None);
}

#[tokio::test]
async fn one_backend_decodes_while_the_other_sends_and_each_begins_where_the_other_stands() {
    let (first, mut a) = owner("a");
    let (second, mut b) = owner("b");
    let backlog = Backlog::new(first, Some(second), &["p"], Lsn::from_u64(UNTIL), LIMITS);
    let (mut stream, mut walsender) = stream_after(backlog);
    let asked = statements(&mut stream, &mut a).await;
    assert!(asked.contains("changes('a',") && !asked.contains("pg_copy_logical"), "{asked}");
    assert!(is_silent(&b), "the first copy does not stand at the end of its batch yet");

    a.write_all(&[frame(b'H', b""), row(0x110, b"one")].concat()).await.unwrap();
    assert_eq!(next(&mut stream).await, "one");
    let asked = statements(&mut stream, &mut b).await;
    assert!(asked.contains("pg_copy_logical_replication_slot('a', 'b', true)"), "{asked}");
    assert!(asked.contains("changes('b',"), "{asked}");

    // The other has decoded its batch before this one is sent.
    b.write_all(&[made_at("0/120"), row(0x130, b"three"), stands_at("0/200")].concat())
        .await
        .unwrap();
    assert_eq!(stream.peek(), Ok(None));
    assert!(is_silent(&a), "its own batch is not complete");
    a.write_all(&[row(0x11f, b"two"), stands_at("0/120")].concat()).await.unwrap();
    assert_eq!(next(&mut stream).await, "two");
    assert_eq!(next(&mut stream).await, "three");
    let asked = statements(&mut stream, &mut a).await;
    assert!(asked.contains("pg_copy_logical_replication_slot('b', 'a', true)"), "{asked}");

    walsender.write_all(&frame(b'd', &[&[b'w'; 25][..], b"later"].concat())).await.unwrap();
    a.write_all(&[made_at("0/200"), row(0x4ff, b"four"), stands_at("0/500")].concat())
        .await
        .unwrap();
    assert_eq!(next(&mut stream).await, "four");
    assert_eq!(next(&mut stream).await, "later", "whatever the other still has to say");
}

#[tokio::test]
async fn a_copy_that_begins_elsewhere_is_refused() {
    let (first, mut a) = owner("a");
    let (second, mut b) = owner("b");
    let backlog = Backlog::new(first, Some(second), &["p"], Lsn::from_u64(UNTIL), LIMITS);
    let (mut stream, _walsender) = stream_after(backlog);
    a.write_all(&[frame(b'H', b""), row(0x110, b"one"), stands_at("0/120")].concat())
        .await
        .unwrap();
    assert_eq!(next(&mut stream).await, "one");
    b.write_all(&[made_at("0/100"), row(0x110, b"one")].concat()).await.unwrap();
    assert_eq!(stream.peek(), Ok(None));
    poll_fn(|cx| stream.poll_fill(cx)).await.unwrap();
    assert!(stream.peek().is_err());
}

#[tokio::test]
async fn a_batch_that_moves_nothing_is_the_last() {
    let (mut stream, mut servers) = reading();
    servers.walsender.write_all(&frame(b'd', &[&[b'w'; 25][..], b"later"].concat())).await.unwrap();
    let batch = [frame(b'H', b""), stands_at("0/4F0")].concat();
    servers.backend.write_all(&[batch.clone(), batch].concat()).await.unwrap();
    assert_eq!(next(&mut stream).await, "later");
}

#[tokio::test]
async fn a_warning_is_shown_since_rows_can_be_missing_behind_it() {
    let (mut stream, mut servers) = reading();
    let warning = frame(b'N', b"SWARNING\0C55000\0Mskipped loading publication: p\0\0");
    let batch = [frame(b'H', b""), warning, row(0x110, b"one")].concat();
    servers.backend.write_all(&batch).await.unwrap();
    let shown = next(&mut stream).await;
    assert!(shown.starts_with("Notice") && shown.contains("skipped loading"), "{shown}");
    assert_eq!(next(&mut stream).await, "one");
}

#[tokio::test]
async fn what_ends_the_backlogs_connection_is_shown_and_what_ends_the_walsenders_fails() {
    let (mut stream, mut servers) = reading();
    let refusal = frame(b'E', b"SERROR\0C42501\0Mpermission denied\0\0");
    servers.backend.write_all(&refusal).await.unwrap();
    let shown = next(&mut stream).await;
    assert!(shown.starts_with("Error") && shown.contains("permission denied"), "{shown}");

    let (mut stream, mut servers) = reading();
    servers.backend.write_all(&row(0x110, b"one")).await.unwrap();
    servers.backend.shutdown().await.unwrap();
    assert_eq!(next(&mut stream).await, "one");
    assert_eq!(next(&mut stream).await, "Closed");

    let (mut stream, mut servers) = reading();
    servers.walsender.shutdown().await.unwrap();
    let failed = poll_fn(|cx| stream.poll_fill(cx)).await.unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn the_walsender_is_heard_beside_the_backlog() {
    let (mut stream, mut servers) = reading();
    assert!(!stream.walsender_was_heard());
    servers.walsender.write_all(&frame(b'd', b"keepalive")).await.unwrap();
    poll_fn(|cx| stream.poll_beside(cx)).await.unwrap();
    assert!(stream.walsender_was_heard());
    assert!(!stream.walsender_was_heard(), "it is told once");
    stream.give_up_backlog();
    assert_eq!(stream.backlog_until(), None);
    assert_eq!(stream.peek(), Ok(None), "nothing is shown of either");
    servers.walsender.write_all(&frame(b'd', b"keepalive")).await.unwrap();
    poll_fn(|cx| stream.poll_fill(cx)).await.unwrap();
    assert!(stream.walsender_was_heard());
}

#[tokio::test]
async fn what_comes_next_is_read_while_nothing_is_wanted_as_far_as_there_is_room() {
    let (mut stream, servers) = reading();
    let rows: Vec<u8> = (0..1_000)
        .flat_map(|number| row(0x110, &[u8::try_from(number % 100).unwrap(); 100]))
        .collect();
    let written = servers.backend.try_write(&rows).unwrap();
    let room = FRAMES.read_buffer;
    assert!(written > room, "{written}");
    let filled = poll_fn(|cx| stream.poll_beside(cx)).await.unwrap();
    assert_eq!(filled, Fill::Bytes(room));
    let again = poll_fn(|cx| Poll::Ready(stream.poll_beside(cx))).await;
    assert!(again.is_pending(), "{again:?}");
    assert_eq!(next(&mut stream).await, "\0".repeat(100));
}

#[tokio::test]
async fn other_messages_are_refused() {
    let malformed =
        [frame(b'D', b"\0\x01\0\0\0\x04none"), frame(b'd', b"no row"), frame(b'G', b"")];
    for message in malformed {
        let (mut stream, mut servers) = reading();
        servers.backend.write_all(&message).await.unwrap();
        poll_fn(|cx| stream.poll_fill(cx)).await.unwrap();
        assert!(stream.peek().is_err(), "{message:?}");
    }
}
