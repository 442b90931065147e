//! What a stream expects of the server before it starts, and what it found there, to be compared
//! with at the next start.

use pgoutput::Lsn;

use super::{
    catalog::Catalog,
    gap::Mark,
    server::Server,
    slot::{Held, SlotHealth},
    tables::TableOids,
};
use crate::{failure::Failure, routing::table::Outboxes, witness::Witness};

/// What the server is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Expectations<'a> {
    /// The slot.
    pub slot: &'a str,
    /// The publication.
    pub publication: &'a str,
    /// The configured tables. Empty: every published table is an outbox.
    pub outboxes: &'a Outboxes,
    /// The record of earlier sessions, of this router or another. None before the first session.
    pub witness: Option<&'a Witness>,
    /// Where the witness is kept.
    pub kept: Kept,
}

/// Where the witness is kept. Only a witness in Kafka shows that a slot past it was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// In Kafka. Every router writes the witness before it confirms, so no router moves the slot
    /// past it.
    InKafka,
    /// In this process only. Another router may have moved the slot without a trace.
    InMemory,
}

/// A server on which a stream may start, as it was at the preflight.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// The server.
    pub server: Server,
    /// The slot.
    pub slot: SlotHealth,
    /// Publication and tables, with their OIDs; also tables that were dropped since the first
    /// session.
    pub catalog: Catalog,
    /// What was altered since the last preflight that the witness names, where the catalog shows
    /// what the alteration was. It is reported and stops nothing.
    pub alterations: Vec<Failure>,
    /// The OIDs of each configured table, by the present catalog and by the witness.
    pub tables: TableOids,
    /// When the server was read: its clock and the end of WAL.
    pub checked: Mark,
    /// The same moment in a form that can be ordered.
    pub held: Held,
}

impl Baseline {
    /// The slot's `confirmed_flush_lsn`; zero if it had none.
    pub fn confirmed(&self) -> Lsn {
        self.slot.confirmed_flush_lsn.unwrap_or(Lsn::from_u64(0))
    }

    /// Where a pipeline without a witness begins. A person names the beginning by this position, so
    /// it is the same for every process that reports it.
    pub fn beginning(&self) -> Mark {
        Mark { lsn: self.confirmed(), at: self.checked.at.clone() }
    }
}
