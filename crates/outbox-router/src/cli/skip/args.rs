//! The flags of `skip`.

use clap::{Args, ValueEnum};
use relay::{Lsn, TableName};

use crate::{
    cli::{
        decision_args::DecisionArgs,
        flags::{AdminArgs, Overrides},
    },
    config::table_name,
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
    /// The row's table; needed where not one table alone is configured: rows of two tables may have
    /// one id in one transaction
    #[arg(long, value_name = "SCHEMA.TABLE", value_parser = table_name)]
    pub table: Option<TableName>,
    /// Let the slot pass the whole transaction, which the server cannot send since it cannot print
    /// a row of it (P008); its rows are noted as left out, and those that can be read are sent by
    /// dead-letters requeue --left-out
    #[arg(id = "given_up", long = "transaction", num_args = 0, default_value = "row")]
    #[arg(default_missing_value = "transaction", conflicts_with_all = ["id", "table"])]
    pub given_up: GivenUp,
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

/// Whether one row is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GivenUp {
    /// One row.
    Row,
    /// The transaction.
    Transaction,
}

fn lsn(text: &str) -> Result<Lsn, &'static str> {
    text.parse().map_err(|_| "write a position as PostgreSQL does, such as 0/16B3748")
}
