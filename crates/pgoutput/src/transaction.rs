//! Messages about a transaction rather than a row: where it begins and ends, where it came from,
//! and what the application wrote into the WAL beside its rows.
//!
//! Manual: "Logical Replication Message Formats", Begin, Commit, Origin, Message, Stream Abort.

use core::fmt;

use crate::reader::Reader;
use crate::show::{Length, Name};
use crate::{DecodeError, Lsn, PgTimestamp, Xid};

/// A transaction begins; all of it follows, up to its [`Commit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// Where the commit record begins: [`Commit::commit_lsn`] of the same transaction.
    pub final_lsn: Lsn,
    /// The server's clock at the commit.
    pub committed_at: PgTimestamp,
    /// The top-level transaction, also where subtransactions wrote the rows.
    pub xid: Xid,
}

/// The transaction is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// Where the commit record begins.
    pub commit_lsn: Lsn,
    /// The first byte after the commit record: the position to confirm.
    pub end_lsn: Lsn,
    /// The server's clock at the commit.
    pub committed_at: PgTimestamp,
}

/// The transaction was replicated from another server; comes right after its [`Begin`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Origin<'a> {
    /// Where it was committed, in the WAL of that server.
    pub commit_lsn: Lsn,
    /// The replication origin's name.
    pub name: &'a [u8],
}

/// What `pg_logical_emit_message` wrote; only sent when the option `messages` is on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LogicalMessage<'a> {
    /// Whether it is sent only if the transaction that wrote it committed.
    pub delivery: Delivery,
    /// Where it lies in the WAL.
    pub lsn: Lsn,
    /// The prefix, by which a reader recognises messages that concern it.
    pub prefix: &'a [u8],
    /// The content.
    pub content: &'a [u8],
}

/// Whether a logical message belongs to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Comes between the transaction's `Begin` and `Commit`, and only when it committed.
    Transactional,
    /// Comes as soon as it is decoded, between two transactions, whether or not the transaction
    /// that wrote it committed.
    Immediate,
}

/// A streamed transaction, or a part of one, was rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamAbort {
    /// The transaction.
    pub xid: Xid,
    /// What was rolled back: a subtransaction, or `xid` again for the whole.
    pub subxid: Xid,
}

impl Begin {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.now_decoding("begin");
        Ok(Self {
            final_lsn: reader.lsn("final lsn")?,
            committed_at: reader.timestamp("commit time")?,
            xid: reader.xid("xid")?,
        })
    }
}

impl Commit {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.now_decoding("commit");
        reader.choice("flags", "0", |flags| (flags == 0).then_some(()))?;
        Ok(Self {
            commit_lsn: reader.lsn("commit lsn")?,
            end_lsn: reader.lsn("end lsn")?,
            committed_at: reader.timestamp("commit time")?,
        })
    }
}

impl<'a> Origin<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.now_decoding("origin");
        Ok(Self { commit_lsn: reader.lsn("commit lsn")?, name: reader.string("name")? })
    }
}

impl<'a> LogicalMessage<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.now_decoding("logical message");
        Ok(Self {
            delivery: reader.choice("flags", "0 or 1", |flags| match flags {
                0 => Some(Delivery::Immediate),
                1 => Some(Delivery::Transactional),
                _ => None,
            })?,
            lsn: reader.lsn("lsn")?,
            prefix: reader.string("prefix")?,
            content: reader.value("content")?,
        })
    }
}

impl StreamAbort {
    /// LSN and time of the abort, sent only to a client that asked for `streaming 'parallel'`.
    const PARALLEL_DETAIL_LEN: usize = 16;

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.now_decoding("stream abort");
        let abort = Self { xid: reader.xid("xid")?, subxid: reader.xid("subxid")? };
        if !reader.rest().is_empty() {
            reader.bytes(Self::PARALLEL_DETAIL_LEN, "abort lsn and time")?;
        }
        Ok(abort)
    }
}

impl fmt::Debug for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin")
            .field("commit_lsn", &self.commit_lsn)
            .field("name", &Name(self.name))
            .finish()
    }
}

impl fmt::Debug for LogicalMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogicalMessage")
            .field("delivery", &self.delivery)
            .field("lsn", &self.lsn)
            .field("prefix", &Name(self.prefix))
            .field("content", &Length(self.content))
            .finish()
    }
}
