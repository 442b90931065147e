//! A running stream: the walsender's frames in, our status updates out.
//!
//! Nothing here waits. [`ReplicationStream::poll_fill`] reads what is there,
//! [`ReplicationStream::peek`] shows frames out of the buffer without I/O,
//! [`ReplicationStream::poll_flush_out`] writes what is queued; when to do which, and when to leave
//! the socket alone, is the caller's decision. Back-pressure is not filling.
//!
//! The output is bounded: of several status updates that the server has not taken yet, only the
//! newest is sent.

use std::collections::BTreeMap;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use postgres_protocol::message::frontend;

use super::frames::Head;
use super::link::{Fill, Link};
use super::session::Session;
use super::{ProtocolError, ServerMessage};

/// Length of a standby status update: `r`, three positions, the time and the reply request.
pub const STATUS_UPDATE_BYTES: usize = 34;

const DOING: &str = "streaming";

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// The payload of a CopyData frame: WAL data or a keepalive.
    Frame(&'a [u8]),
    /// A CopyData frame above `row_bytes`, dropped while it came in.
    Oversized {
        /// The payload's whole length.
        announced: usize,
        /// Its beginning.
        prefix: &'a [u8],
    },
    /// A notice or warning: data, since PostgreSQL 18 tells of missing rows in one.
    Notice(ServerMessage),
    /// The server ended the stream: CopyDone, or the bare CommandComplete with which a stopping
    /// walsender says good-bye.
    CopyDone,
    /// The server ended the stream with an error.
    Error(ServerMessage),
    /// The connection is closed, and everything it carried has been consumed.
    Closed,
}

/// Whether bytes wait to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// None.
    Empty,
    /// Some: poll [`ReplicationStream::poll_flush_out`].
    Waiting,
}

/// A connection that streams; see the module's header.
#[derive(Debug)]
pub struct ReplicationStream {
    link: Link,
    session: Session,
    status: Option<[u8; STATUS_UPDATE_BYTES]>,
    ours: Ours,
    theirs: Theirs,
}

/// Our half of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ours {
    Open,
    /// CopyDone is queued behind the last status update.
    Ending,
    Ended,
}

/// The server's half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theirs {
    Open,
    /// Its end was shown and is not consumed yet.
    EndShown,
    Ended,
}

impl ReplicationStream {
    pub(super) fn new(link: Link, session: Session) -> Self {
        Self { link, session, status: None, ours: Ours::Open, theirs: Theirs::Open }
    }

    /// Over a socket at whose other end a test plays the server.
    #[cfg(test)]
    pub(crate) fn over(socket: tokio::net::UnixStream, limits: super::frames::FrameLimits) -> Self {
        let transport = super::transport::Transport::Unix(socket);
        Self::new(Link::new(transport, limits), Session::default())
    }

    /// Reads what is there, at most a buffer's worth. Cancel-safe.
    ///
    /// # Errors
    /// When the connection breaks. What arrived before can still be consumed.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Fill>> {
        self.link.poll_fill(cx)
    }

    /// The same without the runtime, for a task that has not let it look at the socket for a while;
    /// TLS alone needs the runtime, and brings what that has seen. Returns how many bytes came. An
    /// end and an error are left for [`Self::poll_fill`] to tell.
    pub fn fill_now(&mut self) -> usize {
        self.link.fill_now()
    }

    /// Whether the last read left no room: the server may well have sent more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.link.is_full()
    }

    /// What comes next, without any I/O; `None` until more was read. Shows the same again until
    /// [`Self::consume`].
    ///
    /// # Errors
    /// When the server speaks something else; the stream is then of no further use.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Incoming<'_>>, ProtocolError> {
        loop {
            match self.link.frames.head()? {
                Some(Head::Whole { tag: b'd' }) => {
                    return Ok(Some(Incoming::Frame(self.link.frames.body())));
                }
                Some(Head::Whole { tag }) => match self.control(tag)? {
                    Some(incoming) => return Ok(Some(incoming)),
                    None => self.link.frames.consume(),
                },
                Some(Head::Oversized { announced }) => {
                    let prefix = self.link.frames.body();
                    return Ok(Some(Incoming::Oversized { announced, prefix }));
                }
                None if self.link.is_closed() => return Ok(Some(Incoming::Closed)),
                None => return Ok(None),
            }
        }
    }

    /// Steps past what [`Self::peek`] showed.
    #[inline]
    pub fn consume(&mut self) {
        self.link.frames.consume();
        if self.theirs == Theirs::EndShown {
            self.theirs = Theirs::Ended;
        }
    }

    /// Queues a standby status update. It replaces one that is still unsent, and asks for a reply
    /// if that did.
    pub fn queue_status(&mut self, update: &[u8; STATUS_UPDATE_BYTES]) {
        let mut update = *update;
        if let (Some(unsent), Some(reply)) = (&self.status, update.last_mut()) {
            *reply |= unsent.last().copied().unwrap_or_default();
        }
        if self.ours == Ours::Open {
            self.status = Some(update);
        }
    }

    /// Queues the end of our half, behind any status update. The server answers with its own
    /// CopyDone; reading on until it comes is what makes sure that the last status update was read.
    pub fn queue_copy_done(&mut self) {
        if self.ours == Ours::Open {
            self.ours = Ours::Ending;
        }
    }

    /// Writes what is queued, as far as the server takes it.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn poll_flush_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.output() == Output::Waiting {
            if self.link.out.is_empty() {
                self.encode_next();
            }
            std::task::ready!(self.link.poll_flush(cx))?;
        }
        self.link.poll_flush(cx)
    }

    /// Whether [`Self::poll_flush_out`] has something to do.
    #[must_use]
    pub fn output(&self) -> Output {
        if self.link.has_output() || self.status.is_some() || self.ours == Ours::Ending {
            Output::Waiting
        } else {
            Output::Empty
        }
    }

    /// The walsender's process id, as in `pg_stat_activity`.
    #[must_use]
    pub fn backend_pid(&self) -> Option<u32> {
        self.session.pid()
    }

    /// What the server reported of its parameters.
    #[must_use]
    pub fn parameters(&self) -> &BTreeMap<String, String> {
        &self.session.parameters
    }

    /// How long the socket may be left alone while the server sends.
    #[must_use]
    pub fn rest(&self) -> Duration {
        self.link.transport().rest()
    }

    /// Memory held for reading.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.link.frames.capacity()
    }

    /// The status first: CopyDone ends our half.
    fn encode_next(&mut self) {
        match (self.status.take(), self.ours) {
            (Some(update), _) => put_copy_data(&update, &mut self.link.out),
            (None, Ours::Ending) => {
                frontend::copy_done(&mut self.link.out);
                self.ours = Ours::Ended;
            }
            (None, Ours::Open | Ours::Ended) => {}
        }
    }

    /// A frame that carries no WAL. `None`: dealt with, nothing to show.
    #[cold]
    fn control(&mut self, tag: u8) -> Result<Option<Incoming<'static>>, ProtocolError> {
        let body = self.link.frames.body();
        match (tag, self.theirs) {
            (b'N', _) => Ok(Some(Incoming::Notice(ServerMessage::parse(body)))),
            (b'E', _) => {
                let message = ServerMessage::parse(body);
                self.theirs = Theirs::EndShown;
                Ok(Some(Incoming::Error(message)))
            }
            (b'c' | b'C', Theirs::Open | Theirs::EndShown) => {
                self.theirs = Theirs::EndShown;
                Ok(Some(Incoming::CopyDone))
            }
            // After the end the server completes the command, once or twice, and is ready for
            // another.
            (b'c' | b'C' | b'Z', Theirs::Ended) => Ok(None),
            (b'S', _) => {
                if let Some((name, value)) = parameter(body) {
                    self.session.note_parameter(name, value);
                }
                Ok(None)
            }
            (b'A', _) => Ok(None),
            _ => Err(ProtocolError::Unexpected { tag: char::from(tag), doing: DOING }),
        }
    }
}

/// Name and value of a ParameterStatus.
fn parameter(body: &[u8]) -> Option<(String, String)> {
    let mut texts = body.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    Some((texts.next()?.into_owned(), texts.next()?.into_owned()))
}

fn put_copy_data(payload: &[u8; STATUS_UPDATE_BYTES], out: &mut BytesMut) {
    /// The length field counts itself.
    const LENGTH: u32 = 38;
    out.put_u8(b'd');
    out.put_u32(LENGTH);
    out.put_slice(payload);
}

#[cfg(test)]
mod tests;
