//! The labels of enums that `where` reads. The stream names none, so they are read at the beginning
//! of a session, and hold until a label is added or renamed, or the column gets another type.

use std::collections::BTreeMap;

use pgoutput::{Lsn, Oid};

/// The labels of the columns that a `where` may name, where those are enums. By the OIDs of their
/// tables: one that was renamed is the same outbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterLabels {
    by_column: BTreeMap<Oid, BTreeMap<String, Vec<String>>>,
    /// The end of WAL before they were read.
    read_at: Lsn,
}

impl FilterLabels {
    /// Adds a label, after those that the column of a table has already.
    pub fn add(&mut self, table: Oid, column: &str, label: String) {
        let columns = self.by_column.entry(table).or_default();
        columns.entry(column.to_owned()).or_default().push(label);
    }

    /// Adds a column of a type that is built in, and has no labels.
    pub fn add_built_in(&mut self, table: Oid, column: &str) {
        self.by_column.entry(table).or_default().entry(column.to_owned()).or_default();
    }

    /// These labels, which were read when WAL ended there or later.
    #[must_use]
    pub fn read_at(self, read_at: Lsn) -> Self {
        Self { read_at, ..self }
    }

    /// Those of one column; `None` where it is no enum, or nothing is known of it.
    pub fn of(&self, table: Oid, column: &str) -> Option<&[String]> {
        self.known(table, column).filter(|labels| !labels.is_empty())
    }

    /// The same for a transaction that commits there; none at all, of which no value is one, where
    /// the column had a type that is built in when this was read, before that transaction: if it
    /// has another one there, that was altered since.
    pub fn in_transaction(&self, table: Oid, column: &str, commit: Lsn) -> Option<&[String]> {
        self.known(table, column).filter(|labels| !labels.is_empty() || commit > self.read_at)
    }

    fn known(&self, table: Oid, column: &str) -> Option<&[String]> {
        self.by_column.get(&table)?.get(column).map(Vec::as_slice)
    }
}
