//! The flags of `replay`.

use std::num::NonZeroU32;

use clap::{ArgGroup, Args, ValueEnum};
use relay::{TableName, TopicName};

use crate::{
    cli::{
        dead_letters::Since,
        decision_args::DecisionArgs,
        flags::{AdminArgs, Overrides},
    },
    config::table_name,
    republish::{selection::OrderColumn, sender::BadRows},
};

/// The header that a record has which is sent again.
pub(in crate::cli) const MARKER: &str = "outbox_replay";

/// The flags that say which rows; one of them is needed.
const ROWS: [&str; 6] = ["ids", "keys", "since", "until", "condition", "all"];

/// `replay`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("rows").required(true).multiple(true).args(ROWS))]
pub struct ReplayArgs {
    /// Rows with this id, or, with source = "polling", this primary key, such as 7, or 7,b of two
    /// columns; may be given several times
    #[arg(long = "id", value_name = "ID")]
    pub ids: Vec<String>,
    /// Rows of this key; may be given several times
    #[arg(long = "key", value_name = "KEY")]
    pub keys: Vec<String>,
    /// Rows that were made at this time or later: a time as PostgreSQL reads it (in UTC, if it
    /// names no zone), or a duration before now, such as 2h
    #[arg(long, value_name = "TIME")]
    pub since: Option<Since>,
    /// Rows that were made before this time, written as for --since
    #[arg(long, value_name = "TIME")]
    pub until: Option<Since>,
    /// Rows for which this condition of SQL holds; names of functions and other tables need their
    /// schema
    #[arg(id = "condition", long = "where", value_name = "SQL")]
    pub condition: Option<String>,
    /// All rows of the table
    #[arg(long = "all", num_args = 0, default_value = "selected")]
    #[arg(default_missing_value = "all", conflicts_with_all = ["ids", "keys", "since", "until", "condition"])]
    pub all: Selected,
    /// The table, where several are configured, or none
    #[arg(long, value_name = "SCHEMA.TABLE", value_parser = table_name)]
    pub table: Option<TableName>,
    /// Send all records to this topic, each to the partition of its key, instead of to the topics
    /// of the rows
    #[arg(long, value_name = "TOPIC", value_parser = topic)]
    pub to_topic: Option<TopicName>,
    /// Send at most so many records a second
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<NonZeroU32>,
    /// Leave out the header outbox_replay: 1, so that records are the same as the first time
    #[arg(long = "no-marker", num_args = 0, default_value = "write")]
    #[arg(default_missing_value = "omit")]
    pub marker: Marker,
    /// Leave out rows that cannot become a record, and name them, instead of stopping at the first
    #[arg(long = "skip-bad", num_args = 0, default_value = "stop")]
    #[arg(default_missing_value = "skip")]
    pub bad: BadRow,
    /// Go on with an unfinished run of the same rows where it ended
    #[arg(long = "resume", num_args = 0, default_value = "begin")]
    #[arg(default_missing_value = "resume", conflicts_with = "audit")]
    pub start: Start,
    /// Write no row into outbox_router.republication: nothing says who did it, and it cannot be
    /// resumed
    #[arg(id = "audit", long = "no-audit", num_args = 0, default_value = "write")]
    #[arg(default_missing_value = "omit")]
    pub audit: Audit,
    /// How it is decided.
    #[command(flatten)]
    pub decision: DecisionArgs,
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// Whether a run takes all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Selected {
    /// Those that other flags name.
    Selected,
    /// All.
    All,
}

/// Whether records say that they were sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Marker {
    /// They do.
    Write,
    /// They do not.
    Omit,
}

/// What is done at a row that cannot become a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BadRow {
    /// Nothing is sent after it.
    Stop,
    /// It is left out.
    Skip,
}

impl BadRow {
    /// The same where rows that are left out are written down for retention, which could not tell
    /// one without an id from others.
    pub(in crate::cli) fn keeping(self, id: Result<&OrderColumn, &String>) -> BadRows {
        match (self, id) {
            (Self::Stop, _) | (Self::Skip, Err(_)) => BadRows::Stop,
            (Self::Skip, Ok(id)) => BadRows::Keep(id.place),
        }
    }
}

/// Where a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Start {
    /// At the first row.
    Begin,
    /// Where an unfinished run of the same rows ended.
    Resume,
}

/// Whether a run is written into `outbox_router.republication`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Audit {
    /// It is.
    Write,
    /// It is not.
    Omit,
}

fn topic(text: &str) -> Result<TopicName, String> {
    TopicName::new(text).map_err(|illegal| illegal.to_string())
}

/// How many records a second.
pub(in crate::cli) fn rate(text: &str) -> Result<NonZeroU32, &'static str> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    number.parse().map_err(|_| "write how many a second, such as 500")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_of_records_a_second() {
        for text in ["500", "500/s"] {
            assert_eq!(rate(text).map(NonZeroU32::get), Ok(500));
        }
        for text in ["0", "0/s", "-1", "fast", "5/m", "/s"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
