//! The flags of `recover`.

use std::{num::NonZeroU32, time::Duration};

use clap::{Args, ValueEnum};

use crate::{
    cli::{
        dead_letters::Since,
        decision_args::DecisionArgs,
        flags::{AdminArgs, Overrides},
        replay::{BadRow, rate},
    },
    config::parse_duration,
};

/// `recover`
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// Compare rows that were made at this time or later, instead of from the beginning of the
    /// oldest open gap on: a time as PostgreSQL reads it (in UTC, if it names no zone), or a
    /// duration before now, such as 2h
    #[arg(long, value_name = "TIME")]
    pub since: Option<Since>,
    /// Compare rows that were made so long before that, too: a transaction may be open for so long
    /// before it commits. A transaction that is open longer now extends it
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    pub margin: Duration,
    /// Send all rows since then, whether or not they are in the topics
    #[arg(long = "all", num_args = 0, default_value = "missing")]
    #[arg(default_missing_value = "all")]
    pub selected: RecoveredRows,
    /// Read a whole table where it has no column of a time, or no index on it
    #[arg(long = "slow", num_args = 0, default_value = "refuse")]
    #[arg(default_missing_value = "read")]
    pub whole_table: WholeTable,
    /// Ids that are no uuid are those of one row alone, ever: no other table or producer that
    /// writes to the same topics has them, and no sequence began anew
    #[arg(long = "ids-unique", num_args = 0, default_value = "uuid")]
    #[arg(default_missing_value = "unique")]
    pub ids: IdTrust,
    /// Drop the slot although it still has events to send: they are found in the tables, except
    /// those whose rows were deleted meanwhile
    #[arg(long = "drop-slot", num_args = 0, default_value = "lost")]
    #[arg(default_missing_value = "any")]
    pub dropped: DroppedSlot,
    /// Create the publication where it is missing, and add the tables that it lacks
    #[arg(long = "mend-publication", num_args = 0, default_value = "expect")]
    #[arg(default_missing_value = "mend")]
    pub publication: PublicationPart,
    /// Send at most so many records a second
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<NonZeroU32>,
    /// Leave out rows that cannot become a record, and name them, instead of stopping at the first
    #[arg(long = "skip-bad", num_args = 0, default_value = "stop")]
    #[arg(default_missing_value = "skip")]
    pub bad: BadRow,
    /// How long to wait for open transactions while the slot is created
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub wait: Duration,
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

/// Which rows are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RecoveredRows {
    /// Those that are in no topic.
    Missing,
    /// All.
    All,
}

/// Which ids tell a row from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IdTrust {
    /// Those of the type `uuid`.
    Uuid,
    /// All.
    Unique,
}

/// Which slot may be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DroppedSlot {
    /// One that can send nothing any more.
    Lost,
    /// Any.
    Any,
}

/// Whether a table may be read as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WholeTable {
    /// It may not.
    Refuse,
    /// It may.
    Read,
}

/// What is done about a publication that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PublicationPart {
    /// Nothing: it has to fit.
    Expect,
    /// It is created, or gets the tables that it lacks.
    Mend,
}
