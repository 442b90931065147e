//! The section `[retention]`: its keys, and what contradicts itself in it.

use std::time::Duration;

use relay::{OutboxTable, TableName};

use super::{
    entry::KeyEntry,
    error::{ConfigCode, ConfigError, Rejection},
    kinds::{Kind, Named, choice, connection, count, duration, text},
    names::{identifier, parse_table, print_table},
    print::Lines,
    read::{Problems, Section},
    secret::Secret,
    table::{DeclaredTable, tables},
};

/// What becomes of rows that are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionMode {
    /// They stay in the table.
    Off,
    /// They are deleted.
    Delete,
    /// They are moved into another table.
    Archive,
}

const MODES: &[(&str, RetentionMode)] = &[
    ("off", RetentionMode::Off),
    ("delete", RetentionMode::Delete),
    ("archive", RetentionMode::Archive),
];

/// In milliseconds.
const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;

const fn days(count: u64) -> Duration {
    Duration::from_secs(count * 24 * 3_600)
}

tables! {
    /// `[retention]`
    pub struct RetentionSection {
        /// off: rows stay in the table; delete: they are deleted; archive: they are moved into
        /// another table of the same database. `run` does it beside the stream, `outbox-router
        /// cleanup` does it once.
        mode: RetentionMode = RetentionMode::Off, choice(MODES);
        /// Rows that are younger by their time column are kept, delivered or not. "0s" keeps none
        /// longer than until it is delivered: then nothing is left to be sent again from the table.
        keep: Duration = days(7), duration(0..=3_650 * DAY);
        /// The column by which a row has an age: a timestamp, a date, or an integer in
        /// outbox.timestamp_unit. It needs an index that begins with it. "": what columns.timestamp
        /// names, else the preset's (created_at in most).
        time_column: Option<String> = None,
            text("a column's name, or \"\"", parse_column, print_column);
        /// The table that mode = "archive" moves rows into. It has the outbox's columns; make it by
        /// `create table … (like …)`. "": the outbox's name with _archive behind it.
        archive_table: Option<TableName> = None,
            text("a table's name, or \"\"", parse_archive, print_archive);
        /// How long events that have left the table of held events, and the decisions about them,
        /// stay in outbox_router.held and outbox_router.decision.
        abandoned_keep: Duration = days(30), duration(HOUR..=3_650 * DAY);
        // One statement locks its rows until it ends, and its WAL is written at once.
        /// The most rows that one statement deletes.
        batch: u64 = 1_000, count(1..=100_000);
        /// Time between two such statements.
        pause: Duration = Duration::from_millis(100), duration(0..=60 * SECOND);
        /// Time between the beginnings of two sweeps over the tables.
        interval: Duration = Duration::from_secs(60), duration(SECOND..=DAY);
        // A statement that waits for a lock on the table makes every later one wait behind it.
        /// How long a statement waits for a lock before it is given up until the next sweep.
        lock_timeout: Duration = Duration::from_secs(2), duration(10..=60 * SECOND);
        /// Where to connect for it, in the form of postgres.url and to the same database: for a
        /// role of its own, so that the router's need not delete.
        url: Option<Secret<String>> = None, connection(
            "postgres.url applies",
            "postgres://outbox_cleanup@db.example/shop"
        );
    }
}

fn parse_column(text: &str) -> Result<Option<String>, Rejection> {
    if text.is_empty() { Ok(None) } else { identifier(text).map(|name| Some(name.to_owned())) }
}

fn print_column(name: &Option<String>) -> String {
    name.clone().unwrap_or_default()
}

fn parse_archive(text: &str) -> Result<Option<TableName>, Rejection> {
    if text.is_empty() { Ok(None) } else { parse_table(text).map(Some) }
}

fn print_archive(name: &Option<TableName>) -> String {
    name.as_ref().map(print_table).unwrap_or_default()
}

/// Checks the section against itself and the tables.
pub(super) fn validate(
    retention: &RetentionSection,
    outboxes: &[OutboxTable],
    problems: &mut Problems<'_>,
) {
    let mut contradiction = |what: String, hint: &str| {
        problems.push(ConfigError::new(ConfigCode::Contradiction, what).hint(hint));
    };
    if retention.mode != RetentionMode::Off && outboxes.is_empty() {
        contradiction(
            "retention.mode deletes rows, and no [[outbox]] is configured".to_owned(),
            "name each table that rows are deleted from: [[outbox]] with table = \"public.outbox\"",
        );
    }
    let Some(archive) = &retention.archive_table else { return };
    if retention.mode != RetentionMode::Archive {
        contradiction(
            format!("retention.archive_table is {archive}, and retention.mode is not \"archive\""),
            "set retention.mode = \"archive\", or leave archive_table out",
        );
    }
    if outboxes.len() > 1 {
        contradiction(
            format!("retention.archive_table is {archive}, and there are several [[outbox]]"),
            "leave it out: then each has an archive of its own",
        );
    }
    if outboxes.iter().any(|outbox| outbox.name == *archive) {
        contradiction(
            format!("retention.archive_table is the outbox {archive}"),
            "rows would be delivered again: name another table",
        );
    }
}
