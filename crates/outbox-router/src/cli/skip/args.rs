//! The flags of `skip`.

use clap::Args;
use relay::Lsn;

use crate::cli::{
    decision_args::DecisionArgs,
    flags::{AdminArgs, Overrides},
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

fn lsn(text: &str) -> Result<Lsn, &'static str> {
    text.parse().map_err(|_| "write a position as PostgreSQL does, such as 0/16B3748")
}
