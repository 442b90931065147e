//! Flags that several commands have.

use std::convert::Infallible;

use clap::{Args, ValueEnum};

use crate::config::Secret;

/// `--set`, before or after the command. No global argument of `clap`'s: of those typed in both
/// places it would forget the first in silence.
#[derive(Debug, Args)]
pub struct Overrides {
    /// Set any key, before environment and file: --set limits.window_events=1000
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// For what the router's own role may not do.
#[derive(Debug, Args)]
pub struct AdminArgs {
    /// Connect as a role that may do what this needs, instead of by postgres.url
    #[arg(long, value_name = "URL", value_parser = secret)]
    pub admin_url: Option<Secret<String>>,
}

/// Whether `setup` also makes the tables of dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeadLetterTables {
    /// It does not.
    Skip,
    /// It does.
    Make,
}

/// Whether `setup` and `teardown` print the SQL or run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SqlMode {
    /// Print the SQL.
    Print,
    /// Run it.
    Apply,
}

/// What to do where an outbox table does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MissingTable {
    /// Refuse: the application's migrations create it.
    Expect,
    /// Create it.
    Create,
}

/// Whether `setup` makes the trigger that announces the new rows of a polled table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NotifyTrigger {
    /// It does not.
    Skip,
    /// It does.
    Make,
}

/// Whether `setup` and `teardown` also handle the witness in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RecordPart {
    /// They do.
    Include,
    /// They do not.
    Skip,
}

fn secret(text: &str) -> Result<Secret<String>, Infallible> {
    Ok(Secret::new(text.to_owned()))
}
