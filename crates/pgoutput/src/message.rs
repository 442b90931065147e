//! The messages of pgoutput, protocol version 1, distinguished by their first byte.
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
    /// `A`: a message of protocol version 2, which PostgreSQL 18 was seen to send unasked. It
    /// concerns a transaction that was never sent, so there is nothing to undo.
    StreamAbort(StreamAbort),
}

impl<'a> Message<'a> {
    /// Decodes one message, which must fill `bytes` to the end.
    ///
    /// # Errors
    ///
    /// When the message is unknown, cut short, too long or holds a value without a meaning.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("message", bytes);
        let start = reader;
        let rest = &mut reader;
        let message = match rest.u8("tag")? {
            b'B' => Message::Begin(Begin::read(rest)?),
            b'C' => Message::Commit(Commit::read(rest)?),
            b'O' => Message::Origin(Origin::read(rest)?),
            b'R' => Message::Relation(Relation::read(rest)?),
            b'Y' => Message::Type(Type::read(rest)?),
            b'I' => Message::Insert(Insert::read(rest)?),
            b'U' => Message::Update(Update::read(rest)?),
            b'D' => Message::Delete(Delete::read(rest)?),
            b'T' => Message::Truncate(Truncate::read(rest)?),
            b'M' => Message::Logical(LogicalMessage::read(rest)?),
            b'A' => Message::StreamAbort(StreamAbort::read(rest)?),
            tag => return Err(start.error("tag".into(), DecodeErrorKind::UnknownTag { tag })),
        };
        reader.finish()?;
        Ok(message)
    }
}
