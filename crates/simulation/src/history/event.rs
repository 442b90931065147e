//! A committed row, and what has become of it.

use relay::testing::HeldState;

use super::row::{CatalogState, PublicationState, RowKind};

/// [`CommittedEvent::index_in_key`] of an event that has no key.
pub const NO_ORDER: u64 = u64::MAX;

/// A committed row.
#[derive(Debug, Clone)]
pub struct CommittedEvent {
    /// Index of its key, below [`super::KEYS`].
    pub key: usize,
    /// How many published events of the same key precede it.
    pub index_in_key: u64,
    /// The position of its row; rows may share one, so it orders nothing.
    pub lsn: u64,
    /// Index of its transaction.
    pub transaction: usize,
    /// How many published events of any key precede it.
    pub serial: u64,
    /// The state of the catalog when it was written.
    pub catalog: CatalogState,
    /// Whether it can become a record.
    pub kind: RowKind,
    /// False when a backup was restored that does not contain it.
    pub is_real: bool,
    /// Whether its record is stored in Kafka.
    pub is_stored: bool,
    /// Whether a person has accepted that its record is missing from Kafka.
    pub is_accepted: bool,
    /// The state of its row in the table of held events, if it has one.
    pub held: Option<HeldState>,
    /// Whether the server was restored to a state in which its row had not left the table, or was
    /// not decided about: then it comes again after what followed it.
    pub is_reopened: bool,
    /// Whether the server was restored to a state in which the table had no row of it yet.
    pub is_row_lost: bool,
    /// Whether the server was restored to a state in which nobody had decided yet to drop it.
    pub is_drop_lost: bool,
    /// Whether it may be held alone, so that later events of its key pass it.
    pub is_alone: bool,
}

impl CommittedEvent {
    /// Whether its record belongs in Kafka.
    pub fn is_published(&self) -> bool {
        self.catalog.publication == PublicationState::Complete
    }

    /// Whether its record is stored in Kafka, or accepted as missing, or it is in the table of held
    /// events.
    pub fn is_settled(&self) -> bool {
        self.is_stored || self.is_accepted || self.held.is_some()
    }

    /// Whether the later events of its key may be in Kafka: it is there itself, or never will be,
    /// or they pass it.
    pub fn is_passed(&self) -> bool {
        self.is_stored || self.is_accepted || self.is_to_be_dropped() || self.is_alone
    }

    /// Whether a person has decided to drop it.
    pub fn is_to_be_dropped(&self) -> bool {
        matches!(self.held, Some(HeldState::Dropping | HeldState::Dropped))
    }

    /// Whether it is in the table of held events, and has not left it.
    pub fn is_open(&self) -> bool {
        matches!(self.held, Some(HeldState::Held | HeldState::Requeued | HeldState::Dropping))
    }

    /// Whether it belongs to the order of a key.
    pub fn has_order(&self) -> bool {
        self.index_in_key != NO_ORDER && !self.is_alone
    }
}
