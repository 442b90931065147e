//! What makes a row *delivered*, for everything that removes or marks rows, counts what is missing,
//! or closes a gap: the one authority.
//!
//! The values of this module are proofs. Their fields are private, and only the evidence makes
//! them, as only the ledger makes a `ConfirmedLsn`: [`Confirmed`] says up to which position
//! everything is delivered on this server, [`Covered`] which transactions that are, and
//! [`DeliveredRows`] which rows of a table. No statement that removes rows of a streamed table is
//! built without them. No clock, time zone, cast or name of a topic takes part, but that a time may
//! keep a row; what cannot be proved stays, and is said.
//!
//! # The rule for rows of the stream
//!
//! One SQL connection reads `pg_snapshot_xmin(pg_current_snapshot())`, and in a *later* statement
//! `pg_current_wal_insert_lsn()`. The pair is a [`Horizon`]. Every transaction with an id before
//! the horizon's `xmin` had ended when the position was read, because a transaction is in the list
//! of running ones until its commit record is written. So its commit ends at or before `lsn`. Once
//! a position at or past `lsn` is confirmed, every row that a later statement sees, whose `xmin`
//! precedes the horizon's, and that was written after its table became an outbox, is delivered,
//! held, or filtered out.
//!
//! * It is not enough that a row's transaction is visible in the snapshot: a row that is written
//!   under a savepoint has the id of a subtransaction, which the list of running transactions does
//!   not contain. But such an id is greater than that of its transaction, so "before `xmin`" is
//!   right for both.
//! * The position must not be read before the snapshot is taken: a transaction may end in between,
//!   and its commit lies past that position.
//! * A horizon is valid on the connection that took it only. After a crash, the server gives the
//!   ids of transactions that it lost to others; but a crash ends every connection.
//! * A row has the lower 32 bits of an id, so they are compared modulo 2³² ([`Covered::contains`]).
//! * Rows that were in a table before it was in publication and slot, or before it became a
//!   partition, were never in the stream, although their transactions are confirmed
//!   ([`EventsSince`]).

mod before_gaps;
pub mod compared;
pub mod detached;
mod horizon;
#[cfg(test)]
mod model;
mod partition;
pub mod required;
mod row_version;
mod rows;
mod since;
mod standing;
mod stream_end;
#[cfg(test)]
mod tests;
mod version;
mod xid;

pub use crate::session::HasEvents;
pub use before_gaps::BeforeGaps;
pub use horizon::{Covered, Horizons};
pub use partition::{DroppablePartition, PartitionRows, Writers};
pub use row_version::{RowAt, RowVersion, ServerSession};
pub use rows::{DeliveredRows, EventPart, PartitionLink, WrittenBy};
pub use since::{AgeColumn, EventsSince, OlderRows, Place};
pub use standing::{Acknowledged, Confirmed, Evidence, Witnessed};
pub use stream_end::{SentAgain, StreamEnd, Unproved};
pub use version::{GivenUp, InFlight, SentVersion, Streamed, StreamedRows};
pub use xid::{FullXid, Horizon};
