//! The labels of enums that `where` reads. The stream names none, so they are read at the beginning
//! of a session, and hold until a label is added or renamed.

use std::collections::BTreeMap;

use crate::routing::table::TableName;

/// The labels of the column that a table's `where` names, where that is an enum.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterLabels {
    by_table: BTreeMap<TableName, Vec<String>>,
}

impl FilterLabels {
    /// Adds those of one table.
    pub fn add(&mut self, table: TableName, labels: Vec<String>) {
        self.by_table.insert(table, labels);
    }

    /// Those of one table; `None` where its column is no enum, or nothing is known of it.
    pub fn of(&self, table: &TableName) -> Option<&[String]> {
        self.by_table.get(table).map(Vec::as_slice)
    }
}
