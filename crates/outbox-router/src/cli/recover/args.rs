//! The flags of `recover`.

use std::{num::NonZeroU32, time::Duration};

use clap::{Args, ValueEnum};
use relay::{Failure, Name, TableName, source::give_up};

use crate::{
    cli::{
        dead_letters::Since,
        decision_args::DecisionArgs,
        flags::{AdminArgs, Overrides},
        replay::{BadRow, rate},
    },
    config::{parse_duration, table_name},
};

/// `recover`
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// Compare rows that were made at this time or later, too, beside those whose transactions may
    /// have committed in a gap; where these are not known, those rows alone: a time as PostgreSQL
    /// reads it (in UTC, if it names no zone), or a duration before now, such as 2h
    #[arg(long, value_name = "TIME")]
    pub since: Option<Since>,
    /// Compare rows that were made so long before --since, too: a transaction may be open for so
    /// long before it commits. A transaction that is open longer now extends it
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
    /// An id is that of one row alone, ever, also where it is no uuid, no unique index is on it
    /// alone, or several tables write to one topic: no other row, table or producer that writes to
    /// the same topics has it, and no sequence began again
    #[arg(long = "ids-unique", num_args = 0, default_value = "indexed")]
    #[arg(default_missing_value = "unique")]
    pub ids: IdTrust,
    /// Close the gaps although the rows of this table are not compared: nothing of it is missing,
    /// or what is missing is given up. It was an outbox or a partition when a gap began, or may
    /// have been one. May be given several times
    #[arg(long = "give-up", value_name = "SCHEMA.TABLE", value_parser = table_name)]
    pub given_up: Vec<TableName>,
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
    /// Leave out rows that cannot become a record, instead of stopping at the first:
    /// outbox_router.left_out names them, and retention keeps them in the table
    #[arg(long = "skip-bad", num_args = 0, default_value = "stop")]
    #[arg(default_missing_value = "skip")]
    pub bad: BadRow,
    /// Send rows in no topic that `where` leaves out as they are now, or give them up: an event is
    /// the row as it was inserted, and an UPDATE since may have made it so. Without this they keep
    /// the gaps open
    #[arg(long = "filtered", value_name = "WHAT")]
    pub filtered: Option<FilteredChoice>,
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

impl RecoverArgs {
    /// What was typed, for a command that a hint shows: each flag after a blank. Who decided and
    /// why is left out, and where to connect.
    pub(super) fn typed(&self) -> String {
        let mut typed = String::new();
        let mut add = |is_typed: bool, flag: &str| {
            if is_typed {
                typed.push(' ');
                typed.push_str(flag);
            }
        };
        let since = self.since.as_ref().map(|since| match since {
            Since::Ago(ago) => format!("--since {}s", ago.as_secs()),
            Since::Time(time) => format!("--since '{}'", time.replace('\'', "'\\''")),
        });
        add(since.is_some(), since.as_deref().unwrap_or_default());
        let margin = format!("--margin {}s", self.margin.as_secs());
        add(self.margin != Duration::from_secs(3_600), &margin);
        add(self.selected == RecoveredRows::All, "--all");
        add(self.whole_table == WholeTable::Read, "--slow");
        add(self.ids == IdTrust::Unique, "--ids-unique");
        add(self.dropped == DroppedSlot::Any, "--drop-slot");
        add(self.publication == PublicationPart::Mend, "--mend-publication");
        let rate = self.rate.map(|rate| format!("--rate {rate}"));
        add(rate.is_some(), rate.as_deref().unwrap_or_default());
        add(self.bad == BadRow::Skip, "--skip-bad");
        let filtered = self.filtered.map(|filtered| format!("--filtered {}", filtered.as_str()));
        add(filtered.is_some(), filtered.as_deref().unwrap_or_default());
        let wait = format!("--wait {}s", self.wait.as_secs());
        add(self.wait != Duration::from_secs(60), &wait);
        typed + &give_up(&self.given_up)
    }

    /// A failure whose hint shows the command as it was typed.
    pub(super) fn with_typed(&self, failure: Failure) -> Failure {
        failure.naming(Name::TypedFlags, self.typed())
    }
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
    /// Those of the type `uuid` with a unique index.
    Indexed,
    /// All.
    Unique,
}

/// The decision about rows in no topic that `where` leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FilteredChoice {
    /// They are sent, as they are now
    Send,
    /// The gaps are closed without them: they were no events, or are given up
    GiveUp,
}

impl FilteredChoice {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::GiveUp => "give-up",
        }
    }
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
