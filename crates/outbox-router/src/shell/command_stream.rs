//! A stream that a command reads, and not the router: from a temporary copy of the slot, or from a
//! slot that the command holds.

use std::{future::poll_fn, task::Poll, time::Duration};

use pgoutput::StandbyStatusUpdate;
use relay::{Failure, Lsn, PgTimestamp, ReplyRequest};
use tokio::time::Instant;

use super::translate;
use crate::postgres::{
    Fill, Incoming, ReplicationConnection, ReplicationStream, command_failure, protocol_failure,
    stream_failure,
};

/// `wal_sender_timeout` of the session. A command may wait for longer than a router: for Kafka, or
/// for the reader of its output, such as a pager.
const TIMEOUT: &str = "set wal_sender_timeout = '1h'";

/// How often the server is told how far the stream was read, and asked how far it is.
const STATUS_EVERY: Duration = Duration::from_secs(3);

/// See the module's header.
pub(super) struct CommandStream {
    stream: ReplicationStream,
    publication: String,
    /// Everything before it was read, so the server need not keep it for this slot.
    passed: Lsn,
    /// The server has sent everything before it. A server that shuts down waits until this is
    /// written, where nothing is flushed (`WalSndDone` in PostgreSQL's walsender.c).
    received: Lsn,
    status_due: Instant,
}

/// What the stream holds next.
#[derive(Debug)]
pub(super) enum CommandFrame<'a> {
    /// The payload of a CopyData frame.
    Whole(&'a [u8]),
    /// The beginning of one that is larger than `limits.row_bytes`.
    Oversized {
        /// The payload's whole length.
        announced: usize,
        /// Its beginning.
        prefix: &'a [u8],
    },
}

/// Lets a session wait for as long as a command may, also for locks: creating a slot waits for
/// transactions.
///
/// # Errors
/// The connection breaks.
pub(super) async fn be_patient(connection: &mut ReplicationConnection) -> Result<(), Failure> {
    for statement in [TIMEOUT, "set lock_timeout = 0"] {
        connection.query("the limits of a session", statement).await.map_err(command_failure)?;
    }
    Ok(())
}

impl CommandStream {
    /// The stream of a session that [is patient](be_patient).
    pub(super) fn new(stream: ReplicationStream, publication: &str) -> Self {
        let publication = publication.to_owned();
        let (passed, received) = (Lsn::ZERO, Lsn::ZERO);
        Self { stream, publication, passed, received, status_due: Instant::now() }
    }

    /// Everything before this position was read.
    pub(super) fn pass(&mut self, position: Lsn) {
        self.passed = self.passed.max(position);
    }

    /// Everything before this position was received; it is not confirmed by that.
    pub(super) fn receive(&mut self, position: Lsn) {
        self.received = self.received.max(position);
    }

    /// Sends what is due, and waits up to `limit` for the next bytes. To be called within
    /// [`TIMEOUT`], also while nothing is to be read: otherwise the server ends the connection.
    ///
    /// # Errors
    /// The connection broke.
    pub(super) async fn fill(&mut self, limit: Duration) -> Result<(), Failure> {
        if self.status_due <= Instant::now() {
            self.status_due = Instant::now() + STATUS_EVERY;
            self.queue_status();
        }
        let stream = &mut self.stream;
        let exchange = poll_fn(|cx| {
            if let Poll::Ready(Err(error)) = stream.poll_flush_out(cx) {
                return Poll::Ready(Err(error));
            }
            stream.poll_fill(cx)
        });
        match tokio::time::timeout(limit, exchange).await {
            Ok(Ok(Fill::Bytes(_) | Fill::NoRoom)) | Err(_) => Ok(()),
            // What arrived before the end is still to be read; `peek` shows the end after it.
            Ok(Ok(Fill::Closed)) => Ok(()),
            Ok(Err(error)) => Err(translate::broken(error)),
        }
    }

    /// The next frame that has arrived, the same until [`Self::consume`]; `None` until more
    /// arrives.
    ///
    /// # Errors
    /// The server skips rows, ended the stream, or violates the protocol.
    pub(super) fn peek(&mut self) -> Result<Option<CommandFrame<'_>>, Failure> {
        // Other notices are not shown; the loop is left with a frame, or when nothing is buffered.
        while let Some(Incoming::Notice(message)) = self.stream.peek().map_err(protocol_failure)? {
            let skipped = translate::notice(message).rows_skipped(&self.publication);
            skipped.map_or(Ok(()), Err)?;
            self.stream.consume();
        }
        Ok(match self.stream.peek().map_err(protocol_failure)? {
            None | Some(Incoming::Notice(_)) => None,
            Some(Incoming::Frame(payload)) => Some(CommandFrame::Whole(payload)),
            Some(Incoming::Oversized { announced, prefix }) => {
                Some(CommandFrame::Oversized { announced, prefix })
            }
            Some(Incoming::Error(message)) => return Err(stream_failure(&message)),
            Some(Incoming::CopyDone | Incoming::Closed) => return Err(translate::closed()),
        })
    }

    /// Steps past what [`Self::peek`] showed.
    pub(super) fn consume(&mut self) {
        self.stream.consume();
    }

    /// Says how far the stream was read, and asks how far the server is, which it answers by a
    /// keepalive as soon as it has decoded the present WAL record. The flush position 0/0 confirms
    /// nothing (`ProcessStandbyReplyMessage` in PostgreSQL's walsender.c).
    fn queue_status(&mut self) {
        let update = StandbyStatusUpdate {
            write: self.passed.max(self.received),
            flush: self.passed,
            apply: self.passed,
            clock: PgTimestamp::from_micros(0),
            reply: ReplyRequest::Requested,
        };
        self.stream.queue_status(&update.encode());
    }
}
