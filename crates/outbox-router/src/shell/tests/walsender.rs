//! The server's end of a stream's socket.

use std::{
    io::{ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    sync::{Arc, Mutex},
};

use socket2::SockRef;

use crate::postgres::{ReplicationStream, frames::FrameLimits};

/// What the router's end of the socket is like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) read_buffer: usize,
    /// The smallest possible buffer for what the router sends.
    pub(super) is_narrow: bool,
}

/// What the router sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    /// A status update with this flush position.
    Status(u64),
    CopyDone,
}

#[derive(Clone)]
pub(super) struct Walsender(Arc<Mutex<Wire>>);

struct Wire {
    socket: Option<UnixStream>,
    unread: Vec<u8>,
    received: Vec<Received>,
}

impl Walsender {
    /// Both ends.
    pub(super) fn connected(ends: Ends) -> (ReplicationStream, Self) {
        let (client, server) = UnixStream::pair().unwrap();
        if ends.is_narrow {
            SockRef::from(&client).set_send_buffer_size(0).unwrap();
        }
        client.set_nonblocking(true).unwrap();
        server.set_nonblocking(true).unwrap();
        let client = tokio::net::UnixStream::from_std(client).unwrap();
        let wire = Wire { socket: Some(server), unread: Vec::new(), received: Vec::new() };
        let limits = FrameLimits { read_buffer: ends.read_buffer, row_bytes: 1 << 20 };
        (ReplicationStream::over(client, limits), Self(Arc::new(Mutex::new(wire))))
    }

    /// Another handle of the socket, for a thread that writes more than it takes.
    pub(super) fn socket(&self) -> UnixStream {
        self.0.lock().unwrap().socket.as_ref().unwrap().try_clone().unwrap()
    }

    /// Sends payloads, each in its CopyData.
    pub(super) fn send(&self, payloads: &[Vec<u8>]) {
        self.send_bytes(&framed(payloads));
    }

    pub(super) fn send_bytes(&self, bytes: &[u8]) {
        self.socket().write_all(bytes).unwrap();
    }

    pub(super) fn copy_done(&self) {
        self.send_bytes(b"c\0\0\0\x04");
    }

    pub(super) fn hang_up(&self) {
        self.0.lock().unwrap().socket = None;
    }

    /// Everything that the router has sent so far. Reading makes room for more.
    pub(super) fn received(&self) -> Vec<Received> {
        let mut wire = self.0.lock().unwrap();
        let Wire { socket, unread, received } = &mut *wire;
        let mut chunk = [0; 4096];
        while let Some(socket) = socket {
            match socket.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => unread.extend(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // What we did not read does not interest the other end any more.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error}"),
            }
        }
        while let Some((tag, body)) = message(unread) {
            received.push(match (tag, body.first()) {
                (b'd', Some(b'r')) => Received::Status(position(&body[9..17])),
                (b'c', None) => Received::CopyDone,
                _ => panic!("not a status update: {body:?}"),
            });
            let length = 5 + body.len();
            unread.drain(..length);
        }
        received.clone()
    }

    /// The last position that was confirmed; zero before the first.
    pub(super) fn confirmed(&self) -> u64 {
        let flushed = |message: &Received| match message {
            Received::Status(flush) => Some(*flush),
            Received::CopyDone => None,
        };
        self.received().iter().rev().find_map(flushed).unwrap_or_default()
    }

    /// Whether the router has closed its end.
    pub(super) fn is_left(&self) -> bool {
        self.received();
        let mut byte = [0];
        !matches!(self.socket().read(&mut byte), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

/// As the server sends them.
pub(super) fn framed(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for payload in payloads {
        bytes.push(b'd');
        bytes.extend(u32::try_from(payload.len() + 4).unwrap().to_be_bytes());
        bytes.extend(payload);
    }
    bytes
}

fn message(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let length = u32::from_be_bytes(bytes.get(1..5)?.try_into().unwrap());
    let body = bytes.get(5..1 + usize::try_from(length).unwrap())?;
    Some((bytes[0], body))
}

fn position(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}
