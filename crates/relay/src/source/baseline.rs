//! What a stream expects of the server before it starts, and what it found there, to be compared
//! with at the next start.

use pgoutput::Lsn;

use super::{
    catalog::Catalog,
    gap::Mark,
    server::Server,
    slot::{ServerMoment, SlotHealth},
    tables::TableOids,
};
use crate::{failure::Failure, progress::WitnessStore, routing::table::Outboxes, witness::Witness};

/// What the server is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Expectations<'a> {
    /// The slot.
    pub slot: &'a str,
    /// The publication.
    pub publication: &'a str,
    /// The configured tables. Empty: every published table is an outbox.
    pub outboxes: &'a Outboxes,
    /// The witness of earlier sessions, of this router or another. None before the first session.
    pub witness: Option<&'a Witness>,
    /// Whether the slot may stand past the witness.
    pub position_check: PositionCheck,
}

/// Whether the slot's position is compared with the witness's. A slot that stands past a witness
/// was moved by somebody else, if that witness is in Kafka and of this server's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionCheck {
    /// It is compared.
    Compared,
    /// The witness is in memory only, so another router may have moved the slot; or it names a
    /// position of another history.
    NotCompared,
}

impl From<WitnessStore> for PositionCheck {
    fn from(store: WitnessStore) -> Self {
        match store {
            WitnessStore::Kafka => Self::Compared,
            WitnessStore::Memory => Self::NotCompared,
        }
    }
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
    /// Up to where publication and tables are known to have been as the catalog shows them: the
    /// server's clock and the end of WAL at the reading, or at an earlier one where a transaction
    /// was altering them ([`Catalog::altering`]).
    pub checked: Mark,
    /// The moment of the reading, in the form that can be ordered.
    pub moment: ServerMoment,
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
