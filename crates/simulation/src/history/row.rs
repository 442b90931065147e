//! A row as it was written: whether it can become a record, and under which catalog.

use relay::ErrorClass;

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

    /// The class of `[on_error]` that it belongs to; `None` for one that can be delivered.
    pub const fn class(self) -> Option<ErrorClass> {
        match self {
            Self::Valid => None,
            Self::NullKey | Self::NullId => Some(ErrorClass::BadRow),
            Self::IllegalTopic => Some(ErrorClass::Unroutable),
            Self::Oversized | Self::TooLarge => Some(ErrorClass::TooLarge),
            Self::Refused => Some(ErrorClass::Rejected),
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
