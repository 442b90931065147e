//! The flags of `cleanup`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::{
    cli::{
        confirmation::Confirmation,
        decision_args::Effect,
        flags::{AdminArgs, Overrides},
        form::Form,
        person,
    },
    config::parse_duration,
};

/// `cleanup`
#[derive(Debug, Args)]
pub struct CleanupArgs {
    /// Count the rows that would be removed, and remove none
    #[arg(long = "dry-run", num_args = 0, default_value = "real")]
    #[arg(default_missing_value = "dry")]
    pub effect: Effect,
    /// Do not ask
    #[arg(long = "yes", num_args = 0, default_value = "ask")]
    #[arg(default_missing_value = "yes")]
    pub confirmation: Confirmation,
    /// Read the whole of a table that has no index on its time, instead of refusing it
    #[arg(long = "slow", num_args = 0, default_value = "indexed")]
    #[arg(default_missing_value = "whole")]
    pub pace: Pace,
    /// Remove also rows from before the table was an outbox of this pipeline, or was altered:
    /// nothing shows that they were ever sent
    #[arg(long = "older", num_args = 0, default_value = "kept")]
    #[arg(default_missing_value = "given-up")]
    pub older: Older,
    /// Who gives them up, as it is recorded [default: the user and the host]
    #[arg(long, value_name = "NAME", value_parser = person::parse, requires = "older")]
    pub by: Option<String>,
    /// Why, as it is written beside the name
    #[arg(long, value_name = "TEXT", value_parser = person::reason, requires = "older")]
    pub reason: Option<String>,
    /// How long to wait until the slot has confirmed what was committed when the command began
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub wait: Duration,
    /// Print one JSON object, for programs; it needs --yes or --dry-run
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

/// Rows from before the table was an outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Older {
    /// They stay.
    Kept,
    /// The person who types the command gives them up.
    GivenUp,
}

/// How the rows of a table are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pace {
    /// By an index on their time.
    Indexed,
    /// By reading the whole table, where there is no such index.
    Whole,
}
