//! What the client reports: how far it has got.
//!
//! Manual: "Streaming Replication Protocol", Standby status update. `flush` is the only field that
//! lets the server release WAL: it becomes the slot's `confirmed_flush_lsn`.

use crate::reader::Reader;
use crate::{DecodeError, DecodeErrorKind, Lsn, PgTimestamp, ReplyRequest};

/// The payload of the `CopyData` message `r`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandbyStatusUpdate {
    /// Received up to here.
    pub write: Lsn,
    /// Confirmed up to here: WAL before this position may be removed, and a new session of the slot
    /// starts after it.
    pub flush: Lsn,
    /// Applied up to here; the server only shows it.
    pub apply: Lsn,
    /// The client's clock.
    pub clock: PgTimestamp,
    /// Whether the server shall answer with a keepalive at once, which tells a silent server from a
    /// dead one.
    pub reply: ReplyRequest,
}

impl StandbyStatusUpdate {
    /// Length of the payload in bytes.
    pub const LEN: usize = 34;

    /// The payload, its tag included.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let [w0, w1, w2, w3, w4, w5, w6, w7] = self.write.as_u64().to_be_bytes();
        let [f0, f1, f2, f3, f4, f5, f6, f7] = self.flush.as_u64().to_be_bytes();
        let [a0, a1, a2, a3, a4, a5, a6, a7] = self.apply.as_u64().to_be_bytes();
        let [c0, c1, c2, c3, c4, c5, c6, c7] = self.clock.as_micros().to_be_bytes();
        #[rustfmt::skip]
        let payload = [
            b'r',
            w0, w1, w2, w3, w4, w5, w6, w7,
            f0, f1, f2, f3, f4, f5, f6, f7,
            a0, a1, a2, a3, a4, a5, a6, a7,
            c0, c1, c2, c3, c4, c5, c6, c7,
            self.reply.to_wire(),
        ];
        payload
    }

    /// Decodes a payload: the server's side, for a server that plays PostgreSQL in a test.
    ///
    /// # Errors
    ///
    /// When the payload is something else, cut short or too long.
    pub fn parse(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("status update", payload);
        let start = reader;
        let tag = reader.u8("tag")?;
        if tag != b'r' {
            return Err(start.error("tag".into(), DecodeErrorKind::UnknownTag { tag }));
        }
        let update = Self {
            write: reader.lsn("write position")?,
            flush: reader.lsn("flush position")?,
            apply: reader.lsn("apply position")?,
            clock: reader.timestamp("clock")?,
            reply: reader.choice("reply request", "0 or 1", ReplyRequest::from_wire)?,
        };
        reader.finish()?;
        Ok(update)
    }
}
