//! A running stream: the walsender's frames are read, status updates are written.
//!
//! Nothing here waits. [`ReplicationStream::poll_fill`] reads what has arrived,
//! [`ReplicationStream::peek`] shows frames of the buffer without I/O,
//! [`ReplicationStream::poll_flush_out`] writes what is queued. The caller decides when to do
//! which. Back-pressure is the caller not filling the buffer.
//!
//! A long backlog can be read by SQL first, on a second connection ([`Backlog`]): the stream shows
//! its frames, and then the walsender's. Meanwhile the walsender's socket is read as far as there
//! is room, so that its end is noticed; nothing of it is shown.
//!
//! The output is bounded: of several status updates that could not be written yet, only the newest
//! is sent.

use std::collections::BTreeMap;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use pgoutput::Lsn;
use postgres_protocol::message::frontend;

use super::backlog::{Backlog, Next};
use super::frames::Head;
use super::link::{Fill, Link};
use super::session::ServerParameters;
use super::{ProtocolError, ServerMessage};

/// Length in bytes of a standby status update: `r`, three positions, the time and the reply request
/// (manual, section "Streaming Replication Protocol").
pub const STATUS_UPDATE_BYTES: usize = 34;

const DOING: &str = "streaming";

/// What the server sent next.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// The payload of a CopyData frame: WAL data or a keepalive.
    Frame(&'a [u8]),
    /// A CopyData frame above `row_bytes`, dropped while it was read.
    Oversized {
        /// The payload's whole length.
        announced: usize,
        /// The payload's beginning, at most 64 KiB.
        prefix: &'a [u8],
    },
    /// A notice or warning. It is part of the data, since PostgreSQL 18 reports missing rows in a
    /// warning.
    Notice(ServerMessage),
    /// The server ended the stream: CopyDone, or the CommandComplete without CopyDone by which a
    /// stopping walsender ends it.
    CopyDone,
    /// The server ended the stream with an error.
    Error(ServerMessage),
    /// The connection is closed, and everything that it carried has been consumed.
    Closed,
}

/// Whether bytes wait to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// No byte waits.
    Empty,
    /// Bytes wait: poll [`ReplicationStream::poll_flush_out`].
    Waiting,
}

/// A connection that streams; see the module's header.
#[derive(Debug)]
pub struct ReplicationStream {
    link: Link,
    reading: Reading,
    /// Whether the walsender has sent anything that is not shown yet, since the last question.
    heard: bool,
    session: ServerParameters,
    status: Option<[u8; STATUS_UPDATE_BYTES]>,
    outgoing: OutgoingCopy,
    incoming: IncomingCopy,
}

/// Whose frames are shown.
#[derive(Debug)]
enum Reading {
    /// Those of a backlog, which come before the walsender's.
    Backlog(Box<Backlog>),
    /// None any more: the backlog was not read to its end.
    GivenUp,
    /// The walsender's.
    Stream,
}

/// The state of this router's direction of CopyBoth mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutgoingCopy {
    Open,
    /// CopyDone is queued behind the last status update.
    Ending,
    Ended,
}

/// The state of the server's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IncomingCopy {
    Open,
    /// The end was shown by `peek` and is not consumed yet.
    EndShown,
    Ended,
}

impl ReplicationStream {
    pub(super) fn new(link: Link, session: ServerParameters, backlog: Option<Backlog>) -> Self {
        Self {
            link,
            reading: backlog.map_or(Reading::Stream, |backlog| Reading::Backlog(Box::new(backlog))),
            heard: false,
            session,
            status: None,
            outgoing: OutgoingCopy::Open,
            incoming: IncomingCopy::Open,
        }
    }

    /// A stream over a socket at whose other end a test acts as the server.
    #[cfg(test)]
    pub(crate) fn over(socket: tokio::net::UnixStream, limits: super::frames::FrameLimits) -> Self {
        let transport = super::transport::Transport::Unix(socket);
        Self::new(Link::new(transport, limits), ServerParameters::default(), None)
    }

    /// The same, over TCP.
    #[cfg(test)]
    pub(crate) fn over_tcp(
        socket: tokio::net::TcpStream,
        limits: super::frames::FrameLimits,
    ) -> Self {
        let transport = super::transport::Transport::Tcp(socket);
        Self::new(Link::new(transport, limits), ServerParameters::default(), None)
    }

    /// The same, after a backlog.
    #[cfg(test)]
    pub(super) fn after(backlog: Backlog, link: Link) -> Self {
        Self::new(link, ServerParameters::default(), Some(backlog))
    }

    /// Reads what has arrived, at most a buffer's worth. Cancel-safe.
    ///
    /// # Errors
    /// The connection broke. What arrived before can still be consumed.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Fill>> {
        match &mut self.reading {
            Reading::Stream => self.link.poll_fill(cx),
            Reading::Backlog(backlog) => {
                self.heard |= hear(&mut self.link, cx)?;
                backlog.poll_fill(cx)
            }
            Reading::GivenUp => self.poll_beside(cx),
        }
    }

    /// Up to where the backlog is read by SQL; `None` when the walsender's frames are read.
    #[must_use]
    pub fn backlog_until(&self) -> Option<Lsn> {
        match &self.reading {
            Reading::Backlog(backlog) => Some(backlog.until()),
            Reading::Stream | Reading::GivenUp => None,
        }
    }

    /// Closes the connection of a backlog. What is left of it has to be read by another stream:
    /// this one shows nothing more.
    pub fn give_up_backlog(&mut self) {
        if let Reading::Backlog(_) = self.reading {
            self.reading = Reading::GivenUp;
        }
    }

    /// Whether a backlog was given up.
    #[must_use]
    pub fn is_backlog_given_up(&self) -> bool {
        matches!(self.reading, Reading::GivenUp)
    }

    /// Reads as [`Self::poll_fill`] does, but from the kernel directly: for a task that has not
    /// returned to the runtime for a while, so that the runtime has not seen what arrived. Under
    /// TLS the read goes through the runtime, and gets what the runtime has seen. Returns the
    /// number of bytes read; the end of the connection and errors are left to [`Self::poll_fill`].
    pub fn fill_now(&mut self) -> usize {
        match &mut self.reading {
            Reading::Stream => self.link.fill_now(),
            Reading::Backlog(backlog) => backlog.fill_now(),
            Reading::GivenUp => 0,
        }
    }

    /// While no frames are wanted, or enough wait: reads the walsender's as far as there is room,
    /// so that its life, and the end of the connection, are noticed; and of a backlog what comes
    /// next, so that the server has sent a batch when it decodes another. Nothing is to be read
    /// where the walsender's frames are shown.
    ///
    /// # Errors
    /// A connection broke, or the server closed the walsender's.
    pub fn poll_beside(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Fill>> {
        if let Reading::Stream = self.reading {
            return Poll::Pending;
        }
        let heard = hear(&mut self.link, cx)?;
        self.heard |= heard;
        if let Reading::Backlog(backlog) = &mut self.reading
            && let Poll::Ready(Fill::Bytes(count)) = backlog.poll_fill(cx)?
        {
            return Poll::Ready(Ok(Fill::Bytes(count)));
        }
        if heard { Poll::Ready(Ok(Fill::NoRoom)) } else { Poll::Pending }
    }

    /// Whether the walsender was heard since the last call, while its frames are not shown. One
    /// that has sent more than there is room for cannot be heard: then the kernel notices that it
    /// does not take our status updates (`TCP_USER_TIMEOUT`).
    pub fn walsender_was_heard(&mut self) -> bool {
        let is_beside = !matches!(self.reading, Reading::Stream);
        std::mem::take(&mut self.heard) || (is_beside && self.link.is_full())
    }

    /// Whether the buffer is full after the last read: the server may well have sent more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.shown_link().is_full()
    }

    /// The connection whose frames are shown.
    fn shown_link(&self) -> &Link {
        match &self.reading {
            Reading::Backlog(backlog) => backlog.link(),
            Reading::Stream | Reading::GivenUp => &self.link,
        }
    }

    /// What the server sent next, without any I/O; `None` until more was read. Shows the same again
    /// until [`Self::consume`].
    ///
    /// # Errors
    /// The server violates the protocol; the stream is then of no further use.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Incoming<'_>>, ProtocolError> {
        if !matches!(self.reading, Reading::Stream) {
            match self.next_of_backlog()? {
                Next::End => self.reading = Reading::Stream,
                Next::Nothing => return Ok(None),
                Next::Closed => return Ok(Some(Incoming::Closed)),
                Next::Notice(message) => return Ok(Some(Incoming::Notice(message))),
                Next::Error(message) => return Ok(Some(Incoming::Error(message))),
                Next::Frame => return Ok(Some(Incoming::Frame(self.frame_of_backlog()))),
                Next::Oversized { announced } => {
                    let prefix = self.frame_of_backlog();
                    return Ok(Some(Incoming::Oversized { announced, prefix }));
                }
            }
        }
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

    fn next_of_backlog(&mut self) -> Result<Next, ProtocolError> {
        match &mut self.reading {
            Reading::Backlog(backlog) => backlog.next(),
            Reading::GivenUp => Ok(Next::Nothing),
            Reading::Stream => Ok(Next::End),
        }
    }

    fn frame_of_backlog(&self) -> &[u8] {
        match &self.reading {
            Reading::Backlog(backlog) => backlog.frame(),
            Reading::Stream | Reading::GivenUp => &[],
        }
    }

    /// Steps past what [`Self::peek`] showed.
    #[inline]
    pub fn consume(&mut self) {
        if let Reading::Backlog(backlog) = &mut self.reading {
            backlog.consume();
            return;
        }
        self.link.frames.consume();
        if self.incoming == IncomingCopy::EndShown {
            self.incoming = IncomingCopy::Ended;
        }
    }

    /// Queues a standby status update. It replaces one that is not sent yet, and takes over that
    /// one's request for a reply.
    pub fn queue_status(&mut self, update: &[u8; STATUS_UPDATE_BYTES]) {
        let mut update = *update;
        if let (Some(unsent), Some(reply)) = (&self.status, update.last_mut()) {
            *reply |= unsent.last().copied().unwrap_or_default();
        }
        if self.outgoing == OutgoingCopy::Open {
            self.status = Some(update);
        }
    }

    /// Queues CopyDone behind any status update. The server answers with its own CopyDone; the
    /// caller has to read until then to be sure that the server has read the last status update.
    pub fn queue_copy_done(&mut self) {
        if self.outgoing == OutgoingCopy::Open {
            self.outgoing = OutgoingCopy::Ending;
        }
    }

    /// Writes what is queued, as far as the server accepts it.
    ///
    /// # Errors
    /// The connection broke.
    pub fn poll_flush_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Reading::Backlog(backlog) = &mut self.reading
            && let Poll::Ready(Err(error)) = backlog.poll_flush(cx)
        {
            return Poll::Ready(Err(error));
        }
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
        let asks = matches!(&self.reading, Reading::Backlog(b) if b.link().has_output());
        if asks
            || self.link.has_output()
            || self.status.is_some()
            || self.outgoing == OutgoingCopy::Ending
        {
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

    /// The parameters that the server reported (ParameterStatus).
    #[must_use]
    pub fn parameters(&self) -> &BTreeMap<String, String> {
        &self.session.parameters
    }

    /// How long the socket may stay unread while the server sends, without making the server wait;
    /// see [`Transport::max_unread`](super::transport::Transport::max_unread).
    #[must_use]
    pub fn max_unread(&self) -> Duration {
        self.shown_link().transport().max_unread()
    }

    /// How many TCP segments with data have arrived on the connection whose frames are shown; it
    /// wraps around. `None` where nobody knows.
    #[must_use]
    pub fn segments_received(&self) -> Option<u32> {
        self.shown_link().transport().segments_received()
    }

    /// Memory that the read buffer takes, in bytes.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        let backlog = match &self.reading {
            Reading::Backlog(backlog) => backlog.link().frames.capacity(),
            Reading::Stream | Reading::GivenUp => 0,
        };
        self.link.frames.capacity() + backlog
    }

    /// Encodes the status update before CopyDone, which ends this direction.
    fn encode_next(&mut self) {
        match (self.status.take(), self.outgoing) {
            (Some(update), _) => put_copy_data(&update, &mut self.link.out),
            (None, OutgoingCopy::Ending) => {
                frontend::copy_done(&mut self.link.out);
                self.outgoing = OutgoingCopy::Ended;
            }
            (None, OutgoingCopy::Open | OutgoingCopy::Ended) => {}
        }
    }

    /// Handles a frame that carries no WAL; `None` when there is nothing to show.
    #[cold]
    fn control(&mut self, tag: u8) -> Result<Option<Incoming<'static>>, ProtocolError> {
        let body = self.link.frames.body();
        match (tag, self.incoming) {
            (b'N', _) => Ok(Some(Incoming::Notice(ServerMessage::parse(body)))),
            (b'E', _) => {
                let message = ServerMessage::parse(body);
                self.incoming = IncomingCopy::EndShown;
                Ok(Some(Incoming::Error(message)))
            }
            (b'c' | b'C', IncomingCopy::Open | IncomingCopy::EndShown) => {
                self.incoming = IncomingCopy::EndShown;
                Ok(Some(Incoming::CopyDone))
            }
            // After the end of the copy the server sends CommandComplete, once or twice, and
            // ReadyForQuery.
            (b'c' | b'C' | b'Z', IncomingCopy::Ended) => Ok(None),
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

/// Reads as far as there is room. Returns whether anything came.
fn hear(link: &mut Link, cx: &mut Context<'_>) -> io::Result<bool> {
    let mut heard = false;
    loop {
        match link.poll_fill(cx) {
            Poll::Pending | Poll::Ready(Ok(Fill::NoRoom)) => return Ok(heard),
            Poll::Ready(Ok(Fill::Bytes(_))) => heard = true,
            Poll::Ready(Ok(Fill::Closed)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Poll::Ready(Err(error)) => return Err(error),
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
