//! The flags of `where`.

use std::time::Duration;

use clap::{ArgGroup, Args, value_parser};
use relay::TableName;

use crate::{
    cli::{
        dead_letters::Since,
        flags::{AdminArgs, Overrides},
        form::Form,
    },
    config::{parse_duration, table_name},
};

/// The most events of a key that are listed: each is one more row to route.
const LIMIT_MAX: i64 = 1_000;

/// `where`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("sought").required(true).multiple(true).args(["id", "key"]))]
pub struct WhereArgs {
    /// The event's id; with source = "polling", also the row's primary key, such as 7, or 7,b of
    /// two columns
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Without an id, list the latest events of this key. With one whose row is deleted, search the
    /// partition of this key alone, for a record of this key
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// How many events of the key
    #[arg(long, value_name = "N", default_value = "10", conflicts_with = "id")]
    #[arg(value_parser = value_parser!(u32).range(1..=LIMIT_MAX))]
    pub limit: u32,
    /// Look in this table alone [default: every configured one, or every published one]. It has to
    /// be named where rows of several have this id
    #[arg(long, value_name = "SCHEMA.TABLE", value_parser = table_name)]
    pub table: Option<TableName>,
    /// Read the topics from this time on: a time as PostgreSQL reads it (in UTC, if it names no
    /// zone), or a duration before now, such as 2h [default: the row's own time, or 1h where there
    /// is no row]
    #[arg(long, value_name = "TIME")]
    pub since: Option<Since>,
    /// How long to read the topics
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub timeout: Duration,
    /// Print one JSON object, for programs
    #[arg(long = "json", num_args = 0, default_value = "text")]
    #[arg(default_missing_value = "json")]
    pub form: Form,
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}
