//! What a stream expects of the server before it starts, and what is remembered of it for the next
//! time.

use pgoutput::Lsn;

use super::{
    catalog::Catalog,
    gap::Mark,
    server::Server,
    slot::{Held, SlotHealth},
    tables::TableOids,
};
use crate::{failure::Failure, routing::table::Outboxes, witness::Witness};

/// What is to be found on the server.
#[derive(Debug, Clone, Copy)]
pub struct Expectations<'a> {
    /// The slot.
    pub slot: &'a str,
    /// The publication.
    pub publication: &'a str,
    /// The configured tables; empty: all that are published.
    pub outboxes: &'a Outboxes,
    /// What earlier sessions left behind, of whatever router; `None` before the first.
    pub witness: Option<&'a Witness>,
    /// Where the witness is kept.
    pub kept: Kept,
}

/// Where the witness is kept, which says what a slot that stands past it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// In Kafka, where every router writes it before it moves the slot.
    InKafka,
    /// In this process only: another router may have moved the slot, and nothing says so.
    InMemory,
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
    /// What was altered since the witness was last well, and explains itself: for people to hear
    /// of.
    pub alterations: Vec<Failure>,
    /// Whose a row is, by that and by what was remembered.
    pub tables: TableOids,
    /// When this was looked at, and the end of WAL then.
    pub checked: Mark,
    /// The same, for telling which of two looks was the later.
    pub seen: Held,
}

impl Baseline {
    /// Where the slot stood.
    pub fn confirmed(&self) -> Lsn {
        self.slot.confirmed_flush_lsn.unwrap_or(Lsn::from_u64(0))
    }

    /// Where a pipeline begins that has no record. A person names it by this position, whoever
    /// writes it down first.
    pub fn beginning(&self) -> Mark {
        Mark { lsn: self.confirmed(), at: self.checked.at.clone() }
    }
}
