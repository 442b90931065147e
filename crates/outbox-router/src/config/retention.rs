//! The section `[retention]`: its keys, and what contradicts itself in it.

use std::time::Duration;

use relay::{OutboxTable, TableName, TopicName};

use super::{
    entry::KeyEntry,
    error::{ConfigCode, ConfigError, Rejection},
    kinds::{Kind, Named, choice, connection, count, duration, text},
    names::{identifier, parse_table, print_table},
    polling::SourceKind,
    print::Lines,
    print_duration,
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
    /// They go with their partition.
    DropPartitions,
}

const MODES: &[(&str, RetentionMode)] = &[
    ("off", RetentionMode::Off),
    ("delete", RetentionMode::Delete),
    ("archive", RetentionMode::Archive),
    ("drop_partitions", RetentionMode::DropPartitions),
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
        /// another table of the same database; drop_partitions: whole partitions of a table that
        /// is partitioned by its time are dropped, and made ahead. `run` does it beside the stream,
        /// `outbox-router cleanup` does it once.
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
        /// With mode = "drop_partitions": how long a time a partition that is made has the rows of.
        /// Partitions begin at multiples of it since 1970, so days begin at midnight UTC. Those
        /// that exist may have other lengths.
        partition_by: Duration = days(1), duration(SECOND..=366 * DAY);
        /// With mode = "drop_partitions": how many partitions there are behind the present one, so
        /// that rows have one while nothing can be made for a while.
        partitions_ahead: u64 = 7, count(1..=1_000);
        /// How long events that have left the table of held events, and the decisions about them,
        /// stay in outbox_router.held and outbox_router.decision. Where rows are polled it means
        /// nothing: an abandoned row stays in its table until a person requeues or drops it.
        abandoned_keep: Duration = days(30), duration(HOUR..=3_650 * DAY);
        // One statement locks its rows until it ends, and its WAL is written at once.
        /// The most rows that one statement deletes.
        batch: u64 = 1_000, count(1..=100_000);
        /// Time between two such statements.
        pause: Duration = Duration::from_millis(100), duration(0..=60 * SECOND);
        /// Time between the beginnings of two sweeps over the tables.
        interval: Duration = Duration::from_secs(60), duration(SECOND..=DAY);
        // A statement that waits for a lock on the table makes every later one wait behind it.
        /// How long a statement waits for a lock before it is given up until the next sweep, and
        /// `cleanup` for a sweep.
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

/// Checks the section against itself, the tables, and the state topic.
pub(super) fn validate(
    retention: &RetentionSection,
    (source, outboxes, state_topic): (SourceKind, &[&OutboxTable], Option<&TopicName>),
    problems: &mut Problems<'_>,
) {
    let of_stream = match retention.mode {
        RetentionMode::Archive => Some("archive"),
        RetentionMode::DropPartitions => Some("drop_partitions"),
        RetentionMode::Off | RetentionMode::Delete => None,
    };
    if let (SourceKind::Polling, Some(mode)) = (source, of_stream) {
        let what = format!(
            "retention.mode = \"{mode}\" has no meaning with postgres.source = \"polling\": a row \
             leaves by its own mark, and by nothing else"
        );
        let error = ConfigError::new(ConfigCode::Contradiction, what);
        problems.push(error.hint("set retention.mode = \"delete\", or \"off\""));
    }
    let mut contradiction = |what: String, hint: &str| {
        problems.push(ConfigError::new(ConfigCode::Contradiction, what).hint(hint));
    };
    if retention.mode != RetentionMode::Off && outboxes.is_empty() {
        contradiction(
            "retention.mode deletes rows, and no [[outbox]] is configured".to_owned(),
            "name each table that rows are deleted from: [[outbox]] with table = \"public.outbox\"",
        );
    }
    let is_witnessed = source == SourceKind::Polling || state_topic.is_some();
    if retention.mode != RetentionMode::Off && !is_witnessed {
        contradiction(
            "retention.mode deletes rows, and kafka.state_topic is \"\": nothing shows which of them \
             were sent"
                .to_owned(),
            "name a topic for the witness: kafka.state_topic = \"outbox-router.state\"",
        );
    }
    validate_partitions(retention, &mut contradiction);
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

/// Checks the keys of mode = "drop_partitions".
fn validate_partitions(retention: &RetentionSection, contradiction: &mut impl FnMut(String, &str)) {
    if retention.partition_by.subsec_nanos() != 0 {
        contradiction(
            format!(
                "retention.partition_by is {}, which is no number of whole seconds",
                print_duration(retention.partition_by)
            ),
            "name seconds, hours, or days",
        );
    }
    let ahead = retention.partition_by.as_secs().saturating_mul(retention.partitions_ahead);
    let is_short = ahead < 2 * retention.interval.as_secs();
    if retention.mode == RetentionMode::DropPartitions && is_short {
        contradiction(
            format!(
                "retention.partitions_ahead is {} of {} each, which is less than two \
                 retention.interval of {}: rows would be left without a partition",
                retention.partitions_ahead,
                print_duration(retention.partition_by),
                print_duration(retention.interval)
            ),
            "make more partitions ahead, or longer ones",
        );
    }
}
