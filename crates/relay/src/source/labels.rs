//! The labels of enums that `where` reads. The stream names none, so they are read at the beginning
//! of a session, and hold until a label is added or renamed.

use std::collections::BTreeMap;

use pgoutput::Oid;

/// The labels of the columns that a `where` may name, where those are enums. By the OIDs of their
/// tables: one that was renamed is the same outbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterLabels {
    by_column: BTreeMap<Oid, BTreeMap<String, Vec<String>>>,
}

impl FilterLabels {
    /// Adds a label, after those that the column of a table has already.
    pub fn add(&mut self, table: Oid, column: &str, label: String) {
        let columns = self.by_column.entry(table).or_default();
        columns.entry(column.to_owned()).or_default().push(label);
    }

    /// Those of one column; `None` where it is no enum, or nothing is known of it.
    pub fn of(&self, table: Oid, column: &str) -> Option<&[String]> {
        self.by_column.get(&table)?.get(column).map(Vec::as_slice)
    }
}
