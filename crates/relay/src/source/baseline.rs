//! What a stream expects of the server before it starts, and what is remembered of it for the next time.

use pgoutput::Lsn;

use super::{catalog::Catalog, gap::Mark, slot::SlotHealth, tables::TableOids};
use crate::table::Outboxes;

/// What is to be found on the server.
#[derive(Debug, Clone)]
pub struct Expectations {
    /// The slot.
    pub slot: String,
    /// The publication.
    pub publication: String,
    /// The configured tables; empty: all that are published.
    pub outboxes: Outboxes,
    /// The most that the slot can have been told since we know it, when nobody else can have told it anything: the
    /// highest position that this process sent, or the slot's own at the start of its first session if that is higher.
    /// `None` before the first session, and whenever another process may have held the slot in between (standby).
    pub confirmed: Option<Lsn>,
    /// The furthest that this process ever told or found: so much WAL there must be. `None` before the first session.
    pub furthest: Option<Lsn>,
    /// The baseline of this process's earlier session: what must still be the same.
    pub earlier: Option<Baseline>,
}

/// A server on which a stream may start, as it was then.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// The server.
    pub server: Server,
    /// The slot.
    pub slot: SlotHealth,
    /// Publication and tables, with their OIDs; also those that were dropped since the first look.
    pub catalog: Catalog,
    /// Whose a row is, by that and by what was remembered.
    pub tables: TableOids,
    /// When this was looked at, and the end of WAL then.
    pub checked: Mark,
}

impl Baseline {
    /// Where the slot stood.
    pub fn confirmed(&self) -> Lsn {
        self.slot.confirmed_flush_lsn.unwrap_or(Lsn::from_u64(0))
    }
}

/// Facts of the server that decide how to talk to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `server_version_num`.
    pub version: i32,
    /// `server_encoding`.
    pub encoding: Encoding,
}

/// What the database's texts are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encoding {
    /// Bytes of unknown meaning: ask for `client_encoding = SQL_ASCII`, since the server cannot convert them.
    SqlAscii,
    /// Characters: ask for UTF8.
    Known(String),
}
