//! The wire side of following a PostgreSQL logical replication slot: bytes in, typed messages out.
//!
//! What it covers is the payload of every `CopyData` message that travels while a walsender runs
//! the plug-in `pgoutput` with `proto_version '1'`: [`Frame`] is what the server sends,
//! [`Message`] is what a [`Frame::XLogData`] carries, [`StandbyStatusUpdate`] is what the client
//! answers. The manual describes them in "Streaming Replication Protocol", "Logical Streaming
//! Replication Protocol" and "Logical Replication Message Formats"; each type cites its section.
//!
//! What it guarantees:
//!
//! - **Pure.** No I/O, no clock, no allocation: the crate is `no_std` without `alloc`, so the
//!   compiler checks it. Everything decoded borrows from the buffer it was decoded from.
//! - **Total.** Every input gives a value or a [`DecodeError`] that names the message, the field
//!   and the byte offset; none panics. A message is accepted whole or not at all: bytes left over
//!   are an error, because a decoder that skips what it does not know loses rows in silence.
//! - **Checked once.** A tuple is walked and bounds-checked when it is parsed, so iterating over
//!   its columns cannot fail.
//! - **Discreet.** `Debug` prints catalog names, positions and lengths, never a value of a row, so
//!   that a message in a log line is not a leak.
//!
//! All integers on the wire are in network byte order (big endian); strings are NUL-terminated
//! bytes in the session's `client_encoding`.
//!
//! ```
//! use pgoutput::{Frame, Message, TupleData};
//!
//! fn rows(copy_data: &[u8]) -> Result<usize, pgoutput::DecodeError> {
//!     let Frame::XLogData(frame) = Frame::parse(copy_data)? else { return Ok(0) };
//!     let Message::Insert(insert) = Message::parse(frame.data)? else { return Ok(0) };
//!     Ok(insert.tuple.iter().filter(|column| *column != TupleData::Null).count())
//! }
//! ```

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod error;
mod frame;
mod lsn;
mod message;
mod oid;
mod prefix;
mod reader;
mod relation;
mod row;
mod show;
mod status;
#[cfg(test)]
mod tests;
mod time;
mod transaction;
mod tuple;

pub use error::{DecodeError, DecodeErrorKind, Field};
pub use frame::{Frame, Keepalive, ReplyRequest, XLogData};
pub use lsn::{Lsn, ParseLsnError};
pub use message::Message;
pub use oid::{Oid, Xid};
pub use prefix::{CutColumn, InsertPrefix, parse_insert_prefix};
pub use relation::{KeyPart, Relation, RelationColumn, RelationColumns, ReplicaIdentity, Type};
pub use row::{
    Delete, Insert, OldTuple, RelationIds, Truncate, TruncateOptions, Update, UpdatedFrom,
};
pub use status::StandbyStatusUpdate;
pub use time::PgTimestamp;
pub use transaction::{Begin, Commit, Delivery, LogicalMessage, Origin, StreamAbort};
pub use tuple::{Tuple, TupleColumns, TupleData};
