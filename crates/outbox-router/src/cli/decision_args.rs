//! The flags of commands by which a person decides about a row.

use clap::{Args, ValueEnum};

use super::{confirmation::Confirmation, form::Form, person};

/// How a decision is made: by whom and why, whether it is carried out, and what is printed.
#[derive(Debug, Args)]
pub struct DecisionArgs {
    /// Why, as it is written beside the decision
    #[arg(long, value_name = "TEXT", value_parser = person::reason)]
    pub reason: Option<String>,
    /// Who decides, as it is written beside the decision [default: the user and the host]
    #[arg(long, value_name = "NAME", value_parser = person::parse)]
    pub by: Option<String>,
    /// Show what would be done, and change nothing
    #[arg(long = "dry-run", num_args = 0, default_value = "real")]
    #[arg(default_missing_value = "dry")]
    pub effect: Effect,
    /// Do not ask
    #[arg(long = "yes", num_args = 0, default_value = "ask")]
    #[arg(default_missing_value = "yes")]
    pub confirmation: Confirmation,
    /// Print one JSON object, for programs; it needs --yes or --dry-run
    #[arg(long = "json", num_args = 0, default_value = "text")]
    #[arg(default_missing_value = "json")]
    pub form: Form,
}

/// Whether anything is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Effect {
    /// It is.
    Real,
    /// Nothing is.
    Dry,
}
