//! Transport, frame buffer and output together: what both commands and streaming use.
//!
//! Reading and writing are separate polls that never wait for each other: a peer that does not read
//! must not keep this router from reading.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{FrameBuffer, FrameLimits, Head};
use super::reply::Reply;
use super::transport::Transport;
use super::{CommandError, ProtocolError};

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// This many bytes.
    Bytes(usize),
    /// Nothing: the buffer is full of frames that are not consumed yet.
    NoRoom,
    /// Nothing, and nothing will follow: the peer closed the connection.
    Closed,
}

#[derive(Debug)]
pub(super) struct Link {
    transport: Transport,
    pub(super) frames: FrameBuffer,
    pub(super) out: BytesMut,
    /// How many bytes one call of `poll_fill` may read.
    pass: usize,
    end: End,
    written: Written,
}

/// Whether everything that the transport accepted has been written to the socket: TLS buffers bytes
/// of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Through,
    Held,
}

/// Whether the connection has ended. Bytes that arrived before the end are handed out first.
#[derive(Debug)]
enum End {
    Open,
    Closed,
    Failed(io::Error),
}

/// Why no complete message could be read.
#[derive(Debug)]
pub(super) enum LinkError {
    Io(io::Error),
    Protocol(ProtocolError),
}

impl LinkError {
    pub(super) fn during(self, command: &'static str) -> CommandError {
        match self {
            Self::Io(source) => CommandError::Io { command, source },
            Self::Protocol(source) => CommandError::Protocol { command, source },
        }
    }
}

impl Link {
    pub(super) fn new(transport: Transport, limits: FrameLimits) -> Self {
        let frames = FrameBuffer::new(limits);
        let pass = frames.capacity();
        Self {
            transport,
            frames,
            out: BytesMut::new(),
            pass,
            end: End::Open,
            written: Written::Through,
        }
    }

    pub(super) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The transport, and the bytes that were read and not consumed.
    pub(super) fn into_parts(self) -> (Transport, Vec<u8>) {
        let received = self.frames.received().to_vec();
        (self.transport, received)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.end, End::Closed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.frames.is_full()
    }

    /// Reads what has arrived, up to a buffer's worth. Cancel-safe: nothing that was read is lost.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Fill>> {
        self.fill(|transport, room| Pin::new(transport).poll_read(cx, room))
    }

    /// Reads what has arrived, up to a buffer's worth, from the kernel directly: the runtime learns
    /// of new bytes only while a task waits. Under TLS the read goes through the runtime, and bytes
    /// that the runtime does not know of are left to `poll_fill`; so is an end or an error. Returns
    /// the number of bytes read.
    pub(super) fn fill_now(&mut self) -> usize {
        match self.fill(Transport::read_now) {
            Poll::Ready(Ok(Fill::Bytes(count))) => count,
            Poll::Ready(Err(error)) => {
                self.end = End::Failed(error);
                0
            }
            Poll::Ready(Ok(Fill::NoRoom | Fill::Closed)) | Poll::Pending => 0,
        }
    }

    fn fill(
        &mut self,
        mut read: impl FnMut(&mut Transport, &mut ReadBuf<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<Fill>> {
        let mut total = 0;
        while total < self.pass {
            match &mut self.end {
                End::Open => {}
                End::Closed | End::Failed(_) if total > 0 => break,
                End::Closed => return Poll::Ready(Ok(Fill::Closed)),
                End::Failed(_) => {
                    return match std::mem::replace(&mut self.end, End::Closed) {
                        End::Failed(error) => Poll::Ready(Err(error)),
                        End::Open | End::Closed => Poll::Ready(Ok(Fill::Closed)),
                    };
                }
            }
            let mut room = ReadBuf::new(self.frames.unfilled());
            if room.capacity() == 0 {
                break;
            }
            match read(&mut self.transport, &mut room) {
                Poll::Pending if total == 0 => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(Err(error)) => self.end = End::Failed(error),
                Poll::Ready(Ok(())) => match room.filled().len() {
                    0 => self.end = End::Closed,
                    count => {
                        self.frames.filled(count);
                        total += count;
                    }
                },
            }
        }
        Poll::Ready(Ok(if total == 0 { Fill::NoRoom } else { Fill::Bytes(total) }))
    }

    /// Writes what is queued, as far as the peer accepts it.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            match ready!(Pin::new(&mut self.transport).poll_write(cx, &self.out))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => {
                    self.out.advance(count);
                    self.written = Written::Held;
                }
            }
        }
        ready!(Pin::new(&mut self.transport).poll_flush(cx))?;
        self.written = Written::Through;
        Poll::Ready(Ok(()))
    }

    /// Whether anything that was queued is not written to the socket yet.
    pub(super) fn has_output(&self) -> bool {
        !self.out.is_empty() || self.written == Written::Held
    }

    pub(super) async fn flush(&mut self) -> Result<(), LinkError> {
        poll_fn(|cx| self.poll_flush(cx)).await.map_err(LinkError::Io)
    }

    /// Reads and consumes the next message outside of streaming.
    pub(super) async fn reply(&mut self, doing: &'static str) -> Result<Reply, LinkError> {
        loop {
            // CopyData is refused before its length is used: a row has no place here, and an
            // oversized one would be read to its end.
            if self.frames.received().first() == Some(&b'd') {
                let unexpected = ProtocolError::Unexpected { tag: 'd', doing };
                return Err(LinkError::Protocol(unexpected));
            }
            match self.frames.head().map_err(|error| LinkError::Protocol(error.into()))? {
                Some(Head::Whole { .. }) => {
                    let reply = Reply::parse(self.frames.shown_bytes(), doing);
                    self.frames.consume();
                    return reply.map_err(LinkError::Protocol);
                }
                Some(Head::Oversized { .. }) => {
                    let unexpected = ProtocolError::Unexpected { tag: 'd', doing };
                    return Err(LinkError::Protocol(unexpected));
                }
                None => {}
            }
            match poll_fn(|cx| self.poll_fill(cx)).await.map_err(LinkError::Io)? {
                Fill::Bytes(_) => {}
                Fill::Closed | Fill::NoRoom => {
                    return Err(LinkError::Io(io::ErrorKind::UnexpectedEof.into()));
                }
            }
        }
    }
}
