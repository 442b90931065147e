//! The flags of `setup`.

use std::{num::NonZeroU32, time::Duration};

use clap::{Args, ValueEnum};

use super::partitions::TableForm;
use crate::{
    cli::{
        flags::{
            AdminArgs, DeadLetterTables, MissingTable, NotifyTrigger, Overrides, RecordPart,
            SqlMode,
        },
        hoster::Hoster,
        recover::DroppedSlot,
        replay::{BadRow, rate},
    },
    config::parse_duration,
};

/// `setup`
#[derive(Debug, Args)]
pub struct SetupArgs {
    /// Run the SQL instead of printing it; may be run again
    #[arg(long = "apply", num_args = 0, default_value = "print")]
    #[arg(default_missing_value = "apply")]
    pub write: SqlMode,
    /// Create the outbox table, too, where it does not exist
    #[arg(long = "create-table", num_args = 0, default_value = "expect")]
    #[arg(default_missing_value = "create")]
    pub table: MissingTable,
    /// Create it in partitions by time, for retention.mode = "drop_partitions"
    #[arg(long = "partitioned", num_args = 0, default_value = "plain", requires = "table")]
    #[arg(default_missing_value = "partitioned")]
    pub table_form: TableForm,
    /// Create the tables that `[on_error]` needs, too, and let the router's role use them; with
    /// postgres.source = "polling" none are needed, and it says what is
    #[arg(long = "dead-letters", num_args = 0, default_value = "skip")]
    #[arg(default_missing_value = "make")]
    pub dead_letters: DeadLetterTables,
    /// With postgres.source = "polling": create the trigger that announces new rows, so that they
    /// are read at once; commits that write rows then wait for each other a little
    #[arg(long = "notify", num_args = 0, default_value = "skip")]
    #[arg(default_missing_value = "make")]
    pub notify: NotifyTrigger,
    /// Create the role that the router runs as, with the password of postgres.url: it may log in,
    /// connect and replicate, and read no table; with postgres.source = "polling" it may not
    /// replicate, and gets SELECT and UPDATE on the outbox tables (DELETE, too, where it deletes)
    #[arg(long, value_name = "NAME")]
    pub role: Option<String>,
    /// Who runs the server, which decides how the role gets the right to replicate; without it the
    /// server's own roles tell
    #[arg(long, value_name = "HOSTER", requires = "role")]
    pub managed: Option<Hoster>,
    /// Do not write the witness to the state topic: the router then begins without it and warns
    /// (K022)
    #[arg(long = "skip-kafka", num_args = 0, default_value = "include")]
    #[arg(default_missing_value = "skip")]
    pub record: RecordPart,
    /// How long to wait for open transactions while the slot is created
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub wait: Duration,
    /// Whether rows are sent.
    #[command(flatten)]
    pub backfill: BackfillArgs,
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// `setup --backfill`
#[derive(Debug, Args)]
pub struct BackfillArgs {
    /// Send the rows that the tables have already, before the slot's stream begins: each row comes
    /// in one of both. May be run again where it was interrupted; it needs --apply
    #[arg(id = "older", long = "backfill", num_args = 0, default_value = "leave")]
    #[arg(default_missing_value = "send", requires = "write")]
    pub rows: OlderRows,
    /// Of the rows that the tables have already, send only those for which this condition of SQL
    /// holds, such as "published_at is null"
    #[arg(id = "condition", long = "where", value_name = "SQL", requires = "older")]
    pub condition: Option<String>,
    /// Send at most so many records a second
    #[arg(long, value_name = "N", value_parser = rate, requires = "older")]
    pub rate: Option<NonZeroU32>,
    /// Drop the slot of an interrupted run although it has events to send: they are found in the
    /// tables, except those whose rows were deleted meanwhile
    #[arg(long = "drop-slot", num_args = 0, default_value = "lost", requires = "older")]
    #[arg(default_missing_value = "any")]
    pub dropped: DroppedSlot,
    /// Leave out rows that cannot become a record, instead of stopping at the first:
    /// outbox_router.left_out names them, and retention keeps them in the table
    #[arg(long = "skip-bad", num_args = 0, default_value = "stop")]
    #[arg(default_missing_value = "skip", requires = "older")]
    pub bad: BadRow,
}

/// What happens to the rows that are older than the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OlderRows {
    /// They are not sent.
    Leave,
    /// They are sent.
    Send,
}

impl BackfillArgs {
    /// What happens to all rows that are older than the slot: a condition leaves some of them.
    pub(super) const fn older(&self) -> OlderRows {
        if self.condition.is_some() { OlderRows::Leave } else { self.rows }
    }
}
