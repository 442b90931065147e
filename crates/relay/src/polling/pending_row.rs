//! A row that was read and is to be published.

use pgoutput::PgTimestamp;

use super::row_id::RowId;
use crate::delivered::{RowAt, RowVersion};

/// The text by which rows of one key are known to belong together; `None` where it is NULL. It is
/// the key as SQL has it, and not the bytes of the record's key.
pub type RowKey = Option<Box<str>>;

/// A pending row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRow {
    /// What it is found again by.
    pub id: RowId,
    /// Which version of it was read; where rows are claimed, that of the claim.
    pub version: RowVersion,
    /// What it has to stay in order with.
    pub key: RowKey,
    /// The row, as the Insert message that a walsender would send.
    pub insert: Vec<u8>,
    /// How many bytes that message has; more than are here, where values were left out since the
    /// row is too large without a doubt: a server cannot print each value that it can store.
    pub bytes: usize,
    /// How often it could not be delivered, as the table counts it; zero where it does not.
    pub attempts: u32,
    /// When it was written, as far as the table says, else when it was read.
    pub at: PgTimestamp,
}

impl PendingRow {
    /// The row at the version that was read.
    pub fn row_at(&self) -> RowAt {
        RowAt { id: self.id.clone(), version: self.version }
    }
}
