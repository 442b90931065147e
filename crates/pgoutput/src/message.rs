//! The messages of pgoutput, protocol version 1, told apart by their first byte.
//!
//! Manual: "Logical Streaming Replication Protocol" (the order in which they come) and "Logical
//! Replication Message Formats" (their bytes).

use crate::reader::Reader;
use crate::{
    Begin, Commit, DecodeError, DecodeErrorKind, Delete, Insert, LogicalMessage, Origin, Relation,
    StreamAbort, Truncate, Type, Update,
};

/// One message of the output plug-in.
///
/// A transaction arrives whole, at its commit: `Begin`, then its changes, then `Commit`. A
/// `Relation` precedes the first change of a table in a session and the first one after the table's
/// definition changed. The only message outside a transaction is a `Logical` one that was emitted
/// as non-transactional.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// `B`: a transaction begins.
    Begin(Begin),
    /// `C`: the transaction is complete.
    Commit(Commit),
    /// `O`: the transaction was replicated from elsewhere.
    Origin(Origin<'a>),
    /// `R`: what the columns of a table are from here on.
    Relation(Relation<'a>),
    /// `Y`: the name of a type that is not built in.
    Type(Type<'a>),
    /// `I`: a row was inserted.
    Insert(Insert<'a>),
    /// `U`: a row was updated.
    Update(Update<'a>),
    /// `D`: a row was deleted.
    Delete(Delete<'a>),
    /// `T`: tables were truncated.
    Truncate(Truncate<'a>),
    /// `M`: what `pg_logical_emit_message` wrote.
    Logical(LogicalMessage<'a>),
    /// `A`: belongs to protocol version 2, but PostgreSQL 18 was seen to send it unasked. It
    /// concerns a transaction that was never sent, so there is nothing to undo.
    StreamAbort(StreamAbort),
}

impl<'a> Message<'a> {
    /// Decodes one message, which must fill `bytes` to the end.
    ///
    /// # Errors
    ///
    /// When the message is unknown, cut short, too long or holds a value without a meaning.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("message", bytes);
        let start = reader;
        let tag = reader.u8("tag")?;
        // An outbox sees little else: this one is decoded in line, the others by a call.
        let message = if tag == b'I' {
            Message::Insert(Insert::read(&mut reader)?)
        } else {
            Self::read_other(tag, start, &mut reader)?
        };
        reader.finish()?;
        Ok(message)
    }

    #[inline(never)]
    fn read_other(
        tag: u8,
        start: Reader<'a>,
        reader: &mut Reader<'a>,
    ) -> Result<Self, DecodeError> {
        Ok(match tag {
            b'B' => Message::Begin(Begin::read(reader)?),
            b'C' => Message::Commit(Commit::read(reader)?),
            b'O' => Message::Origin(Origin::read(reader)?),
            b'R' => Message::Relation(Relation::read(reader)?),
            b'Y' => Message::Type(Type::read(reader)?),
            b'U' => Message::Update(Update::read(reader)?),
            b'D' => Message::Delete(Delete::read(reader)?),
            b'T' => Message::Truncate(Truncate::read(reader)?),
            b'M' => Message::Logical(LogicalMessage::read(reader)?),
            b'A' => Message::StreamAbort(StreamAbort::read(reader)?),
            _ => return Err(start.error("tag".into(), DecodeErrorKind::UnknownTag { tag })),
        })
    }
}
