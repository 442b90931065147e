//! How a row is named for people and programs.

use relay::TableName;
use serde_json::{Map, Value, json};

use crate::{
    cli::{EventRef, shown_bytes},
    polling::sql::{Stuck, StuckRow},
};

/// How many bytes of a key, an id or an error are shown to people in one line.
const SHOWN_MAX: usize = 40;

/// A row, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) table: TableName,
    pub(super) row: StuckRow,
}

impl Found {
    /// What follows `--id`, in quotes where a shell needs them.
    pub(super) fn named(&self) -> String {
        let id = &self.row.id;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+,".contains(c);
        let begins = id.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
        if begins && id.chars().all(is_plain) {
            return id.clone();
        }
        format!("'{}'", id.replace('\'', "'\\''"))
    }

    /// Whether a person has named it so.
    pub(super) fn is_named(&self, by: &EventRef) -> bool {
        self.row.id == by.text || self.primary_key().join(",") == by.text
    }

    fn primary_key(&self) -> Vec<&str> {
        self.row.identity.0.iter().map(|text| &**text).collect()
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
