//! The labels of enums that `where` reads. The stream names none, so they are read at the beginning
//! of a session, and hold until a label is added or renamed, or the column gets another type.

use std::collections::BTreeMap;

use pgoutput::{Lsn, Oid};

use crate::routing::mapping::FIRST_OF_USERS;

/// The labels of the columns that a `where` may name, where those are enums; none at all where they
/// are arrays, rows, or ranges, whose values no word is. By the OIDs of their tables: one that was
/// renamed is the same outbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterLabels {
    /// The type of each column, as it is declared.
    types: BTreeMap<Oid, BTreeMap<String, u32>>,
    /// The labels of those types; `None` where any word may be a value of the type.
    labels: BTreeMap<u32, Option<Vec<String>>>,
    /// The end of WAL before they were read.
    read_at: Lsn,
}

impl FilterLabels {
    /// Adds a column of a table, with the OID of the type that it is declared with.
    pub fn add(&mut self, table: Oid, column: &str, of_type: u32) {
        self.types.entry(table).or_default().insert(column.to_owned(), of_type);
        self.labels.entry(of_type).or_default();
    }

    /// Says of a type that it has no values but its labels.
    pub fn close(&mut self, of_type: u32) {
        self.labels.entry(of_type).or_default().get_or_insert_default();
    }

    /// Adds a label of a type, once.
    pub fn add_label(&mut self, of_type: u32, label: String) {
        let labels = self.labels.entry(of_type).or_default().get_or_insert_default();
        if !labels.contains(&label) {
            labels.push(label);
        }
    }

    /// These labels, which were read when WAL ended there or later.
    #[must_use]
    pub fn read_at(self, read_at: Lsn) -> Self {
        Self { read_at, ..self }
    }

    /// Those of one column; `None` where any word may be its value, or nothing is known of it.
    pub fn of(&self, table: Oid, column: &str) -> Option<&[String]> {
        let of_type = self.types.get(&table)?.get(column)?;
        self.labels.get(of_type)?.as_deref()
    }

    /// The same for a transaction that commits there, in which the column has this type; none at
    /// all, so that no value is one, of a user's type that no such column had when this was read,
    /// before that transaction: it may be an enum.
    pub fn in_transaction(
        &self,
        (table, column): (Oid, &str),
        of_type: u32,
        commit: Lsn,
    ) -> Option<&[String]> {
        let is_later = commit > self.read_at;
        match self.labels.get(&of_type) {
            Some(Some(labels)) => Some(labels),
            Some(None) if is_later && of_type >= FIRST_OF_USERS => None,
            None if is_later && of_type >= FIRST_OF_USERS => Some(&[]),
            // Values of a former type are those of the present one only as far as it has them.
            Some(None) | None => self.of(table, column),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Oid = Oid::from_u32(5);
    const TEXT: u32 = 25;
    const DOMAIN: u32 = 16_500;
    const ENUM: u32 = 16_600;
    const UNKNOWN: u32 = 16_700;
    const ARRAY: u32 = 16_800;

    fn labels(of_type: u32) -> FilterLabels {
        let mut known = FilterLabels::default();
        known.add(TABLE, "status", of_type);
        known.add(Oid::from_u32(6), "status", DOMAIN);
        known.add(Oid::from_u32(7), "status", ENUM);
        known.add_label(ENUM, "a".to_owned());
        known.add_label(ENUM, "a".to_owned());
        known.close(ENUM);
        known.add(Oid::from_u32(9), "status", ARRAY);
        known.close(ARRAY);
        known.read_at(Lsn::from_u64(100))
    }

    #[test]
    fn a_type_that_no_column_had_before_the_transaction_has_no_known_value() {
        let (a, none): (&[String], &[String]) = (&["a".to_owned()], &[]);
        for (declared, of_type, before, later) in [
            (TEXT, TEXT, None, None),
            (TEXT, ENUM, Some(a), Some(a)),
            (TEXT, DOMAIN, None, None),
            (TEXT, UNKNOWN, None, Some(none)),
            (DOMAIN, UNKNOWN, None, Some(none)),
            (ENUM, ENUM, Some(a), Some(a)),
            (ENUM, UNKNOWN, Some(a), Some(none)),
            // Rows from before it became an enum, and after it became none.
            (ENUM, TEXT, Some(a), Some(a)),
            (ENUM, DOMAIN, Some(a), None),
            (TEXT, ARRAY, Some(none), Some(none)),
            (ARRAY, ARRAY, Some(none), Some(none)),
        ] {
            let known = labels(declared);
            let at = |table: u32, lsn| {
                let column = (Oid::from_u32(table), "status");
                known.in_transaction(column, of_type, Lsn::from_u64(lsn))
            };
            assert_eq!((at(5, 100), at(5, 101)), (before, later), "{declared} {of_type}");
            // A partition that was made since.
            let made = if of_type == UNKNOWN { Some(none) } else { at(5, 101) };
            if of_type != TEXT {
                assert_eq!(at(8, 101), made, "{declared} {of_type}");
            }
        }
    }
}
