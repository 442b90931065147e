//! The flags of `skip`.

use clap::Args;
use relay::Lsn;

use crate::cli::{
    confirmation::Confirmation,
    dead_letters::Effect,
    flags::{AdminArgs, Overrides},
    form::Form,
    person,
};

/// `skip`
#[derive(Debug, Args)]
pub struct SkipArgs {
    /// Where the commit of the row's transaction starts, as status and the log show it
    #[arg(long, value_name = "LSN", value_parser = lsn)]
    pub lsn: Lsn,
    /// The value of the row's id column; left out for a row without an id
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
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
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

fn lsn(text: &str) -> Result<Lsn, &'static str> {
    text.parse().map_err(|_| "write a position as PostgreSQL does, such as 0/16B3748")
}
