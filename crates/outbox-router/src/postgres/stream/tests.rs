//! A stream against a scripted server at the other end of a socket pair.

use std::future::poll_fn;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::*;
use crate::postgres::frames::FrameLimits;

fn stream(row_bytes: usize) -> (ReplicationStream, UnixStream) {
    let (client, server) = UnixStream::pair().unwrap();
    let limits = FrameLimits { read_buffer: 64 * 1024, row_bytes };
    (ReplicationStream::over(client, limits), server)
}

fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
    bytes.extend(body);
    bytes
}

/// Consumes what comes next, and returns it as text.
async fn next(stream: &mut ReplicationStream) -> String {
    loop {
        let shown = stream.peek().unwrap().map(|incoming| format!("{incoming:?}"));
        if let Some(shown) = shown {
            let again = stream.peek().unwrap().map(|incoming| format!("{incoming:?}"));
            assert_eq!(again.as_ref(), Some(&shown), "peeking twice shows the same");
            stream.consume();
            return shown;
        }
        poll_fn(|cx| stream.poll_fill(cx)).await.unwrap();
    }
}

async fn flush(stream: &mut ReplicationStream) {
    poll_fn(|cx| stream.poll_flush_out(cx)).await.unwrap();
}

fn status(marker: u8, reply: u8) -> [u8; STATUS_UPDATE_BYTES] {
    let mut update = [marker; STATUS_UPDATE_BYTES];
    update[STATUS_UPDATE_BYTES - 1] = reply;
    update
}

#[tokio::test]
async fn frames_notices_and_the_end_come_in_order_and_housekeeping_is_skipped() {
    let (mut stream, mut server) = stream(1024 * 1024);
    let script = [
        frame(b'd', b"kone"),
        frame(b'S', b"TimeZone\0UTC\0"),
        frame(b'N', b"SWARNING\0C55000\0Mskipped loading publication: p\0\0"),
        frame(b'd', b"ktwo"),
        frame(b'c', b""),
        frame(b'C', b"COPY 0\0"),
        frame(b'C', b"START_REPLICATION\0"),
        frame(b'Z', b"I"),
    ];
    server.write_all(&script.concat()).await.unwrap();
    drop(server);
    assert_eq!(next(&mut stream).await, format!("{:?}", Incoming::Frame(b"kone")));
    assert!(next(&mut stream).await.contains("skipped loading"));
    assert_eq!(next(&mut stream).await, format!("{:?}", Incoming::Frame(b"ktwo")));
    assert_eq!(next(&mut stream).await, "CopyDone");
    assert_eq!(next(&mut stream).await, "Closed");
    assert_eq!(stream.parameters().get("TimeZone").map(String::as_str), Some("UTC"));
}

#[tokio::test]
async fn a_stopping_walsender_may_end_without_copy_done() {
    let (mut stream, mut server) = stream(1024);
    server.write_all(&frame(b'C', b"COPY 0\0")).await.unwrap();
    drop(server);
    assert_eq!(next(&mut stream).await, "CopyDone");
    assert_eq!(next(&mut stream).await, "Closed");
}

#[tokio::test]
async fn an_error_ends_the_stream_and_what_follows_it_is_ignored() {
    let (mut stream, mut server) = stream(1024);
    let error = frame(b'E', b"SERROR\0VERROR\0C42704\0Mpublication \"p\" does not exist\0\0");
    server.write_all(&[error, frame(b'Z', b"I")].concat()).await.unwrap();
    drop(server);
    assert!(next(&mut stream).await.contains("42704"));
    assert_eq!(next(&mut stream).await, "Closed");
}

#[tokio::test]
async fn a_message_that_does_not_belong_in_a_stream_is_an_error() {
    let (mut stream, mut server) = stream(1024);
    server.write_all(&frame(b'Z', b"I")).await.unwrap();
    poll_fn(|cx| stream.poll_fill(cx)).await.unwrap();
    assert_eq!(stream.peek(), Err(ProtocolError::Unexpected { tag: 'Z', doing: "streaming" }));
}

#[tokio::test]
async fn an_oversized_row_is_dropped_while_it_comes_in() {
    let (mut stream, mut server) = stream(64 * 1024);
    let body = vec![7; 8 * 1024 * 1024];
    let script = [frame(b'd', &body), frame(b'd', b"after")].concat();
    let send = async { server.write_all(&script).await.unwrap() };
    let receive = async {
        let mut largest = 0;
        let seen = loop {
            match stream.peek().unwrap() {
                Some(Incoming::Oversized { announced, prefix }) => break (announced, prefix.len()),
                Some(other) => panic!("{other:?}"),
                None => {}
            }
            poll_fn(|cx| stream.poll_fill(cx)).await.unwrap();
            largest = largest.max(stream.buffer_bytes());
        };
        stream.consume();
        (seen, largest)
    };
    let ((), (seen, largest)) = tokio::join!(send, receive);
    assert_eq!(seen, (body.len(), 64 * 1024));
    assert!(largest <= 128 * 1024, "{largest}");
    assert_eq!(next(&mut stream).await, format!("{:?}", Incoming::Frame(b"after")));
}

#[tokio::test]
async fn a_full_buffer_is_not_read_into_and_not_an_end() {
    let (mut stream, mut server) = stream(1024 * 1024);
    let one = frame(b'd', &[1; 1019]);
    server.write_all(&one.repeat(64)).await.unwrap();
    while !stream.link.frames.unfilled().is_empty() {
        poll_fn(|cx| stream.poll_fill(cx)).await.unwrap();
    }
    assert_eq!(poll_fn(|cx| stream.poll_fill(cx)).await.unwrap(), Fill::NoRoom);
    stream.peek().unwrap();
    stream.consume();
    server.write_all(&one).await.unwrap();
    let mut seen = 1;
    while seen < 65 {
        next(&mut stream).await;
        seen += 1;
    }
}

#[tokio::test]
async fn only_the_newest_status_is_sent_and_a_reply_request_is_kept() {
    let (mut stream, mut server) = stream(1024);
    assert_eq!(stream.output(), Output::Empty);
    stream.queue_status(&status(1, 1));
    stream.queue_status(&status(2, 0));
    stream.queue_copy_done();
    stream.queue_copy_done();
    assert_eq!(stream.output(), Output::Waiting);
    flush(&mut stream).await;
    assert_eq!(stream.output(), Output::Empty);
    stream.queue_status(&status(3, 0));
    assert_eq!(stream.output(), Output::Empty, "our half has ended");
    drop(stream);
    let mut sent = Vec::new();
    server.read_to_end(&mut sent).await.unwrap();
    assert_eq!(sent, [frame(b'd', &status(2, 1)), frame(b'c', b"")].concat());
}

#[tokio::test]
async fn a_peer_that_does_not_read_costs_no_memory_and_stops_no_reading() {
    let (mut stream, mut server) = stream(1024);
    let mut sent = 0;
    let mut cx = Context::from_waker(std::task::Waker::noop());
    loop {
        stream.queue_status(&status(1, 0));
        sent += 1;
        if stream.poll_flush_out(&mut cx).is_pending() {
            break;
        }
        assert!(sent < 1_000_000, "the socket never fills up");
    }
    for _ in 0..1000 {
        stream.queue_status(&status(2, 0));
        assert!(stream.poll_flush_out(&mut cx).is_pending());
    }
    assert!(stream.link.out.len() <= 39);
    server.write_all(&frame(b'd', b"still here")).await.unwrap();
    assert_eq!(next(&mut stream).await, format!("{:?}", Incoming::Frame(b"still here")));
}

#[tokio::test]
async fn reading_ahead_needs_no_runtime_and_leaves_the_end_for_later() {
    let (mut stream, mut server) = stream(1024);
    assert_eq!(stream.fill_now(), 0, "nothing is there");
    let script = [frame(b'd', b"kone"), frame(b'd', b"ktwo")].concat();
    server.write_all(&script).await.unwrap();
    // There was no await since, so the runtime does not know yet that something has arrived.
    assert_eq!(stream.fill_now(), script.len());
    drop(server);
    assert_eq!(stream.fill_now(), 0);
    assert_eq!(next(&mut stream).await, format!("{:?}", Incoming::Frame(b"kone")));
    assert_eq!(next(&mut stream).await, format!("{:?}", Incoming::Frame(b"ktwo")));
    assert_eq!(next(&mut stream).await, "Closed");
}
