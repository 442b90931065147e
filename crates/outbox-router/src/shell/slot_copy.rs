//! The connection of a [dry stream](super::DryStream), which is what commands use: a temporary copy
//! of the slot. What the slot holds is read from the copy, and the slot itself stays where it is,
//! even while another process streams from it.
//!
//! `pg_copy_logical_replication_slot` needs no more than the attribute REPLICATION. PostgreSQL
//! drops a temporary slot when its session ends, for whatever reason (manual, section "Replication
//! Management Functions"); so nothing has to be cleaned up. Only the session that made it can
//! stream from it.

use std::{future::poll_fn, task::Poll, time::Duration};

use pgoutput::StandbyStatusUpdate;
use relay::{Case, Code, Failure, Lsn, PgTimestamp, ReplyRequest, source::slot_checks};
use tokio::time::Instant;

use super::{
    connect::{Source, SourceReading, client_encoding, identify},
    translate,
};
use crate::postgres::{
    Fill, Incoming, ReplicationStream, command_failure, protocol_failure, quote_literal,
    stream_failure,
};

/// `wal_sender_timeout` of the session that streams from a copy. A command may wait for longer than
/// a router: for Kafka, or for the reader of its output, such as a pager.
const TIMEOUT: &str = "set wal_sender_timeout = '1h'";

/// How often the server is told how far the copy was read, and asked how far it is.
const STATUS_EVERY: Duration = Duration::from_secs(3);

/// How many bytes of the slot's name its copy's name begins with; a name has at most 63.
const NAME_BYTES: usize = 40;

/// A stream from a temporary copy of the slot.
pub(super) struct SlotCopy {
    stream: ReplicationStream,
    /// See [`SlotCopy::begins_at`].
    begins_at: Lsn,
    /// Everything before it was read, so the server need not keep it for the copy.
    passed: Lsn,
    status_due: Instant,
}

/// What the stream holds next.
#[derive(Debug)]
pub(super) enum CopyFrame<'a> {
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

impl Source {
    /// Reads slot, publication and tables, copies the slot and starts to stream from the copy.
    ///
    /// # Errors
    /// The server cannot be reached or refuses; the slot is missing, lost, or of another plugin.
    pub(super) async fn copy_slot(&self) -> Result<(SlotCopy, SourceReading), Failure> {
        let reading = self.read(None).await?;
        let slot = slot_checks::suitable(&self.slot, &reading.slot_reading)?;
        let begins_at = slot.confirmed_flush_lsn.unwrap_or(Lsn::ZERO);
        // No SQL on tables may run on the connection that streams; see `Source::start`.
        let mut connection = self.connect(client_encoding(&reading.server)).await?;
        if identify(&mut connection).await?.0 != reading.server.history {
            let what = "another server answers than a moment ago, or it was promoted";
            return Err(Failure::new(Code::ServerUnreachable, what));
        }
        connection.query("wal_sender_timeout", TIMEOUT).await.map_err(command_failure)?;
        let copy = copy_name(&self.slot);
        let statement = format!(
            "select from pg_catalog.pg_copy_logical_replication_slot({}, {}, true)",
            quote_literal(&self.slot),
            quote_literal(&copy)
        );
        connection.query("the copy of the slot", &statement).await.map_err(|error| {
            let failure = command_failure(error);
            if failure.code == Code::ServerFull {
                failure.with_case(Case::NoFreeSlot)
            } else {
                failure
            }
        })?;
        let publications = [self.publication.as_str()];
        let stream =
            connection.start_replication(&copy, &publications).await.map_err(command_failure)?;
        let copy = SlotCopy { stream, begins_at, passed: Lsn::ZERO, status_due: Instant::now() };
        Ok((copy, reading))
    }
}

impl SlotCopy {
    /// The slot's `confirmed_flush_lsn` when it was read, shortly before it was copied; the copy
    /// may begin later. Nothing that was committed before it comes.
    pub(super) fn begins_at(&self) -> Lsn {
        self.begins_at
    }

    /// Everything before this position was read.
    pub(super) fn pass(&mut self, position: Lsn) {
        self.passed = self.passed.max(position);
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
    /// The server ended the stream or violates the protocol.
    pub(super) fn peek(&mut self) -> Result<Option<CopyFrame<'_>>, Failure> {
        // Notices are not shown; the loop is left with a frame, or when nothing is buffered.
        while let Some(Incoming::Notice(_)) = self.stream.peek().map_err(protocol_failure)? {
            self.stream.consume();
        }
        Ok(match self.stream.peek().map_err(protocol_failure)? {
            None | Some(Incoming::Notice(_)) => None,
            Some(Incoming::Frame(payload)) => Some(CopyFrame::Whole(payload)),
            Some(Incoming::Oversized { announced, prefix }) => {
                Some(CopyFrame::Oversized { announced, prefix })
            }
            Some(Incoming::Error(message)) => return Err(stream_failure(&message)),
            Some(Incoming::CopyDone | Incoming::Closed) => return Err(translate::closed()),
        })
    }

    /// Steps past what [`Self::peek`] showed.
    pub(super) fn consume(&mut self) {
        self.stream.consume();
    }

    /// Says how far the copy was read, and asks how far the server is, which it answers by a
    /// keepalive as soon as it has decoded the present WAL record.
    fn queue_status(&mut self) {
        let update = StandbyStatusUpdate {
            write: self.passed,
            flush: self.passed,
            apply: self.passed,
            clock: PgTimestamp::from_micros(0),
            reply: ReplyRequest::Requested,
        };
        self.stream.queue_status(&update.encode());
    }
}

/// A name that no other slot has; a slot's name has lower-case letters, digits and underscores.
fn copy_name(slot: &str) -> String {
    let own = uuid::Uuid::new_v4().simple().to_string();
    let beginning: String = slot.chars().take(NAME_BYTES).collect();
    format!("{beginning}_copy_{}", own.get(..8).unwrap_or(&own))
}
