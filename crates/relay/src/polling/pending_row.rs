//! A row that was read and is to be published.

use pgoutput::PgTimestamp;

/// What a row is found again by: the texts of its primary key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub Box<[Box<str>]>);

/// The text by which rows of one key are known to belong together; `None` where it is NULL. It is
/// the key as SQL has it, and not the bytes of the record's key.
pub type RowKey = Option<Box<str>>;

/// A pending row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRow {
    /// What it is found again by.
    pub id: RowId,
    /// What it has to stay in order with.
    pub key: RowKey,
    /// The row, as the Insert message that a walsender would send.
    pub insert: Vec<u8>,
    /// How often it could not be delivered, as the table counts it; zero where it does not.
    pub attempts: u32,
    /// When it was written, as far as the table says, else when it was read.
    pub at: PgTimestamp,
}
