//! What the server sends while it streams: WAL data and keepalives.
//!
//! Manual: "Streaming Replication Protocol", START_REPLICATION. Each is the payload of one
//! `CopyData` message.

use core::fmt;

use crate::reader::Reader;
use crate::show::Length;
use crate::{DecodeError, DecodeErrorKind, Lsn, PgTimestamp};

/// The payload of a `CopyData` message from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// `w`: one message of the output plug-in.
    XLogData(XLogData<'a>),
    /// `k`: how far the server has got, with or without something to send.
    Keepalive(Keepalive),
}

/// A piece of output, with the position it was decoded from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct XLogData<'a> {
    /// Where the WAL record lies that this output comes from. [`Lsn::ZERO`] where the server has
    /// more to send for the same record: before a Relation, a Type, a Begin with an Origin.
    pub wal_start: Lsn,
    /// Equal to `wal_start`: the server writes that position twice. Not a position to confirm.
    pub wal_end: Lsn,
    /// The server's clock when it sent this.
    pub sent_at: PgTimestamp,
    /// The plug-in's message: what [`Message::parse`](crate::Message::parse) takes.
    pub data: &'a [u8],
}

/// A Primary keepalive message: how far the server has decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// How far the server has decoded. A transaction whose commit record lies before this position
    /// has been sent. While a transaction is being sent, the position says nothing about that
    /// transaction.
    pub wal_end: Lsn,
    /// The server's clock when it sent this.
    pub sent_at: PgTimestamp,
    /// Whether the server wants a status update at once. The server closes the connection if it
    /// gets none within `wal_sender_timeout`.
    pub reply: ReplyRequest,
}

/// Whether the sender wants an answer at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyRequest {
    /// The next regular answer suffices.
    Optional,
    /// An answer is due now.
    Requested,
}

impl<'a> Frame<'a> {
    /// Decodes the payload of one `CopyData` message.
    ///
    /// # Errors
    ///
    /// When the payload is neither WAL data nor a keepalive, or is cut short or too long.
    #[inline]
    pub fn parse(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("frame", payload);
        let start = reader;
        match reader.u8("tag")? {
            b'w' => XLogData::read(reader).map(Frame::XLogData),
            b'k' => Keepalive::read(reader).map(Frame::Keepalive),
            tag => Err(start.error("tag".into(), DecodeErrorKind::UnknownTag { tag })),
        }
    }
}

impl<'a> XLogData<'a> {
    /// Bytes before [`data`](Self::data) in the payload: what to add to the offset of an error in
    /// the message to get the offset in the frame.
    pub const HEADER_LEN: usize = 25;

    #[inline]
    fn read(mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        reader.now_decoding("wal data");
        Ok(Self {
            wal_start: reader.lsn("wal start")?,
            wal_end: reader.lsn("wal end")?,
            sent_at: reader.timestamp("send time")?,
            data: reader.rest(),
        })
    }
}

impl Keepalive {
    fn read(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        reader.now_decoding("keepalive");
        let keepalive = Self {
            wal_end: reader.lsn("wal end")?,
            sent_at: reader.timestamp("send time")?,
            reply: reader.choice("reply request", "0 or 1", ReplyRequest::from_wire)?,
        };
        reader.finish()?;
        Ok(keepalive)
    }
}

impl ReplyRequest {
    pub(crate) const fn from_wire(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Optional),
            1 => Some(Self::Requested),
            _ => None,
        }
    }

    pub(crate) const fn to_wire(self) -> u8 {
        match self {
            Self::Optional => 0,
            Self::Requested => 1,
        }
    }
}

impl fmt::Debug for XLogData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XLogData")
            .field("wal_start", &self.wal_start)
            .field("wal_end", &self.wal_end)
            .field("sent_at", &self.sent_at)
            .field("data", &Length(self.data))
            .finish()
    }
}
