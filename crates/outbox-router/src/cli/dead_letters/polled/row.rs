//! How a row is named for people and programs.

use relay::TableName;
use serde_json::{Map, Value, json};

use crate::{
    cli::{EventRef, shown_bytes},
    config::{Config, table_name},
    polling::sql::{Stuck, StuckRow},
    postgres::quote_table,
    shell_word::shell_word,
};

/// How many bytes of a key, an id or an error are shown to people in one line.
const SHOWN_MAX: usize = 40;

/// What a person types to name one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// Its id: one table is polled.
    ById,
    /// Its id and its table, since rows of others may have this id.
    ByIdAndTable,
}

impl Naming {
    pub(super) fn of(config: &Config) -> Self {
        if config.tables().count() > 1 { Self::ByIdAndTable } else { Self::ById }
    }
}

/// A row, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) table: TableName,
    pub(super) row: StuckRow,
}

impl Found {
    /// What follows `--id`.
    pub(super) fn named(&self, naming: Naming) -> String {
        let id = shell_word(&self.row.id);
        match naming {
            Naming::ById => id,
            Naming::ByIdAndTable => format!("{id} --table {}", typed(&self.table)),
        }
    }

    /// Whether a person has named it so.
    pub(super) fn is_named(&self, by: &EventRef) -> bool {
        self.row.id == by.text || self.primary_key().join(",") == by.text
    }

    fn primary_key(&self) -> Vec<&str> {
        self.row.row.id.0.iter().map(|text| &**text).collect()
    }

    pub(super) fn id(&self) -> String {
        shown_bytes::text(self.row.id.as_bytes(), SHOWN_MAX)
    }

    pub(super) fn key(&self) -> String {
        let key = self.row.key.as_deref();
        key.map_or_else(|| "(no key)".to_owned(), |it| shown_bytes::text(it.as_bytes(), SHOWN_MAX))
    }

    pub(super) fn attempts(&self) -> String {
        self.row.attempts.map_or_else(|| "-".to_owned(), |attempts| attempts.to_string())
    }

    pub(super) fn error(&self) -> String {
        let error = self.row.error.as_deref().unwrap_or("-");
        shown_bytes::text(error.as_bytes(), 2 * SHOWN_MAX)
    }

    /// Since when it is so, or until when it waits, as far as the table says.
    pub(super) fn when(&self, which: Stuck) -> String {
        let StuckRow { abandoned_at, available_at, written_at, .. } = &self.row;
        match (which, abandoned_at, available_at, written_at) {
            (Stuck::Abandoned, Some(at), ..) => at.clone(),
            (Stuck::Waiting, _, Some(at), _) => format!("until {at}"),
            (Stuck::Waiting, _, None, _) => "until an unknown time".to_owned(),
            (.., Some(at)) => format!("written {at}"),
            (.., None) => "-".to_owned(),
        }
    }

    /// For programs.
    pub(super) fn json(&self) -> Map<String, Value> {
        let StuckRow { id, key, attempts, error, abandoned_at, available_at, written_at, .. } =
            &self.row;
        let members = [
            ("table", json!(self.table.to_string())),
            ("id", json!(id)),
            ("primary_key", json!(self.primary_key())),
            ("key", json!(key)),
            ("attempts", json!(attempts)),
            ("code", json!(self.row.code().map(|code| code.as_str()))),
            ("error", json!(error)),
            ("abandoned_at", json!(abandoned_at)),
            ("available_at", json!(available_at)),
            ("written_at", json!(written_at)),
            ("behind", json!(self.row.behind)),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// A table as it is typed after `--table`.
pub(super) fn typed(table: &TableName) -> String {
    let plain = table.to_string();
    let is_read_so = table_name(&plain).is_ok_and(|read| read == *table);
    shell_word(&if is_read_so { plain } else { quote_table(table) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_typed_as_the_shell_and_the_flag_read_it() {
        for (schema, name, expected) in [
            ("public", "outbox", "public.outbox"),
            ("public", "x$1", "'public.x$1'"),
            ("public", "Outbox", "'\"public\".\"Outbox\"'"),
            ("a.b", "c", "'\"a.b\".\"c\"'"),
            ("it's", "outbox", "'\"it'\\''s\".\"outbox\"'"),
        ] {
            let table = TableName { schema: schema.to_owned(), name: name.to_owned() };
            assert_eq!(typed(&table), expected);
        }
    }
}
