//! A committed row, and what is known of its record.

use relay::{Code, testing::HeldState};

/// [`CommittedEvent::index_in_key`] of an event that has no key.
pub const NO_ORDER: u64 = u64::MAX;

/// What the publication did with a row when the row was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublicationState {
    /// The publication publishes it.
    Complete,
    /// The publication publishes no inserts: the server sends nothing.
    WithoutInserts,
    /// The publication does not have the table: the server sends nothing.
    WithoutTable,
    /// The publication does not exist: the server sends an error, or a warning.
    Missing,
}

/// Whether a row can become a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// It can.
    Valid,
    /// Its key is NULL.
    NullKey,
    /// Its id is NULL.
    NullId,
    /// Its type makes an illegal topic name.
    IllegalTopic,
    /// It is larger than the router reads.
    Oversized,
    /// Its record is larger than its topic takes.
    TooLarge,
    /// The broker refuses its record, as long as nobody removes the cause.
    Refused,
}

impl RowKind {
    /// Those that cannot be delivered as they are.
    pub const POISON: [Self; 6] = [
        Self::NullKey,
        Self::NullId,
        Self::IllegalTopic,
        Self::Oversized,
        Self::TooLarge,
        Self::Refused,
    ];

    /// The code of the failure of such a row; `None` for one that can become a record.
    pub const fn code(self) -> Option<Code> {
        match self {
            Self::Valid => None,
            Self::NullKey => Some(Code::KeyIsNull),
            Self::NullId => Some(Code::IdIsNull),
            Self::IllegalTopic => Some(Code::TopicIllegal),
            Self::Oversized => Some(Code::RowTooLarge),
            Self::TooLarge => Some(Code::RecordTooLarge),
            Self::Refused => Some(Code::RecordRefused),
        }
    }
}

/// The name under which a row of the outbox is sent. The OID is the table's, except of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxName {
    /// The name that the routers are configured with.
    Configured,
    /// Something else.
    Changed,
    /// That of a partition, since the publication was by leaf when the row was written.
    Partition,
}

/// The state of the catalog when a row is written.
#[derive(Debug, Clone, Copy)]
pub struct CatalogState {
    /// What the publication does with rows.
    pub publication: PublicationState,
    /// Shape of the table.
    pub shape: usize,
    /// Its name.
    pub name: OutboxName,
}

impl CatalogState {
    /// The catalog as set-up leaves it.
    pub const NEW: Self =
        Self { publication: PublicationState::Complete, shape: 0, name: OutboxName::Configured };
}

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
    /// Whether its row in the table is, or was, a dead letter's.
    pub is_letter: bool,
    /// Whether the topic of dead letters has a record of it.
    pub has_letter_record: bool,
    /// Whether the order of its key does not bind it: it has, or had, a cause to become a dead
    /// letter, and the routers hold no keys.
    pub is_free: bool,
    /// Whether the server was restored to a state in which its row had not left the table, or was
    /// not decided about: then it comes again after what followed it.
    pub is_reopened: bool,
    /// Whether the server was restored to a state in which the table had no row of it yet.
    pub is_row_lost: bool,
    /// Whether the server was restored to a state in which nobody had decided yet to drop it.
    pub is_drop_lost: bool,
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
    /// or binds none of them.
    pub fn is_passed(&self) -> bool {
        self.is_stored || self.is_accepted || self.is_to_be_dropped() || self.is_free
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
        self.index_in_key != NO_ORDER
    }
}
