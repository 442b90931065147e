//! The flags of `run` for a dry run.

use std::num::NonZeroU64;

use clap::{Args, ValueEnum};

use crate::cli::form::Form;

/// `run --dry-run`
#[derive(Debug, Args)]
pub struct DryRunArgs {
    /// Print what would be produced, and produce nothing: it reads a temporary copy of the slot up
    /// to where WAL ends now, and leaves the slot where it is
    #[arg(long = "dry-run", num_args = 0, default_value = "real")]
    #[arg(default_missing_value = "dry", conflicts_with = "exit_on_fatal")]
    pub production: Production,
    /// Follow the copy of the slot until so many records are printed, instead of ending where WAL
    /// ends now
    #[arg(long, value_name = "N", requires = "production")]
    pub records: Option<NonZeroU64>,
    /// Print one JSON object a line, for programs
    #[arg(long = "json", num_args = 0, default_value = "text")]
    #[arg(default_missing_value = "json", requires = "production")]
    pub form: Form,
}

/// Whether `run` produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Production {
    /// It does.
    Real,
    /// It prints what it would produce.
    Dry,
}
