//! A row as somebody is shown it who looks on (`outbox-router tap`).

use std::fmt;

use pgoutput::{Insert, PgTimestamp};

use super::{pending_row::PendingRow, row_id::RowId};
use crate::{
    routing::table::TableName,
    session::{HeldRow, Rows},
};

/// A row that is about to be produced.
pub struct PolledRow<'a> {
    pub(super) table: &'a TableName,
    pub(super) row: &'a PendingRow,
    /// `None` where the row is too large to be read.
    pub(super) insert: Option<&'a Insert<'a>>,
    pub(super) rows: &'a Rows,
}

impl PolledRow<'_> {
    /// Its table.
    pub fn table(&self) -> &TableName {
        self.table
    }

    /// What it is found again by.
    pub fn id(&self) -> &RowId {
        &self.row.id
    }

    /// When it was written, as far as the table says, else when it was read.
    pub fn at(&self) -> PgTimestamp {
        self.row.at
    }

    /// The values of the columns that choose the topic and name the event's type, where the table
    /// has them.
    pub fn types(&self) -> [Option<&[u8]>; 2] {
        let whole = self.insert.map(|insert| HeldRow::Whole(*insert, &self.row.insert));
        whole.and_then(|row| self.rows.types(row)).unwrap_or_default()
    }
}

impl fmt::Debug for PolledRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolledRow")
            .field("table", self.table)
            .field("row", self.row)
            .finish_non_exhaustive()
    }
}
