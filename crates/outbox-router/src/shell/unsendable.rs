//! Whether the server can send the transactions that the slot has: read from a temporary copy.

use std::time::Duration;

use pgoutput::{Begin, Frame, Message};
use relay::{Code, Failure, Lsn};
use tokio::time::Instant;

use super::{
    command_stream::CommandFrame,
    connect::{Source, SourceReading},
};

/// How long one wait for bytes lasts.
const WAIT: Duration = Duration::from_secs(1);

/// A server that is asked every few seconds, and says for so long that it is no further, is at the
/// end of WAL.
const NO_FURTHER: Duration = Duration::from_secs(60);

/// How many transactions before such a one are passed with it at most: one session of a router
/// delivers more.
const BEFORE_MAX: usize = 100;

/// The transactions up to a position.
#[derive(Debug)]
pub(crate) enum Transactions {
    /// The server sends all of them.
    Sendable,
    /// The server ends the stream within one.
    Unsendable(Unsendable),
    /// More than are looked at come before that.
    Many,
}

/// A transaction that the server cannot send.
#[derive(Debug)]
pub(crate) struct Unsendable {
    /// Where its commit record begins.
    pub(crate) commit_at: Lsn,
    /// Its top-level id.
    pub(crate) xid: u32,
    /// The ids of those before it that the slot has not delivered.
    pub(crate) before: Vec<u32>,
    /// The server's words.
    pub(crate) error: Failure,
}

impl Source {
    /// Copies the slot, and reads the transactions that it has to send and that commit up to this
    /// position, in their order. One without a row of the publication is not sent.
    ///
    /// # Errors
    /// The server cannot be reached or refuses; the slot is missing, lost, or of another plugin.
    pub(crate) async fn transactions(
        &self,
        until: Lsn,
    ) -> Result<(Transactions, SourceReading), Failure> {
        let (mut copy, reading) = self.copy_slot().await?;
        let (mut open, mut before): (Option<Begin>, Vec<u32>) = (None, Vec::new());
        let (mut passed, mut since) = (Lsn::ZERO, Instant::now());
        let found = loop {
            let payload = match copy.stream.peek() {
                Ok(None) => {
                    copy.stream.fill(WAIT).await?;
                    continue;
                }
                Ok(Some(CommandFrame::Whole(payload))) => payload,
                // Only a row is so large.
                Ok(Some(CommandFrame::Oversized { .. })) => {
                    copy.stream.consume();
                    continue;
                }
                Err(error) => match open {
                    Some(begin) if error.code == Code::ServerError => {
                        let (commit_at, xid) = (begin.final_lsn, begin.xid.as_u32());
                        let found = Unsendable { commit_at, xid, before, error };
                        break Transactions::Unsendable(found);
                    }
                    Some(_) | None => return Err(error),
                },
            };
            match Frame::parse(payload)? {
                Frame::Keepalive(keepalive) => {
                    if passed < keepalive.wal_end {
                        (passed, since) = (keepalive.wal_end, Instant::now());
                    }
                    let is_passed = passed > until || since.elapsed() > NO_FURTHER;
                    if open.is_none() && is_passed {
                        break Transactions::Sendable;
                    }
                }
                Frame::XLogData(data) => match Message::parse(data.data)? {
                    Message::Begin(begin) if begin.final_lsn > until => {
                        break Transactions::Sendable;
                    }
                    Message::Begin(_) if before.len() >= BEFORE_MAX => break Transactions::Many,
                    Message::Begin(begin) => open = Some(begin),
                    Message::Commit(_) => before.extend(open.take().map(|it| it.xid.as_u32())),
                    Message::Relation(_)
                    | Message::Insert(_)
                    | Message::Origin(_)
                    | Message::Type(_)
                    | Message::Update(_)
                    | Message::Delete(_)
                    | Message::Truncate(_)
                    | Message::Logical(_)
                    | Message::StreamAbort(_) => {}
                },
            }
            copy.stream.consume();
        };
        Ok((found, reading))
    }
}
