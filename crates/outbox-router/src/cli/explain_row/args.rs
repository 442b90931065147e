//! The flags of `explain` for one row.

use std::{num::NonZeroI32, str::FromStr};

use clap::Args;
use relay::TableName;

use super::json_row::JsonRow;
use crate::{cli::form::Form, config::table_name, republish::sql_type::SqlType};

/// The arguments beside which `--row` is not required. Flags name these as conflicts, since `clap`
/// does not ask for a required `--row` where another of its group is given.
const WITHOUT_ROW: [&str; 2] = ["explanation", "id"];

/// `explain --id`, `explain --row`
#[derive(Debug, Args)]
pub struct RowArgs {
    /// Explain what the router makes of the row with this id: read it from the outbox table, and
    /// the topic's partition count from Kafka. The router's own role may not read the table; see
    /// --admin-url. With source = "polling", also the row's primary key, such as 7, or 7,b of two
    /// columns
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Explain what the router makes of this row, by the configuration alone: an object of columns,
    /// as to_jsonb(row) prints it
    #[arg(id = "json_row", long = "row", value_name = "JSON")]
    pub row: Option<JsonRow>,
    /// The row's table, where several are configured, or none
    #[arg(long, value_name = "SCHEMA.TABLE", value_parser = table_name)]
    #[arg(conflicts_with = "explanation")]
    pub table: Option<TableName>,
    /// For --row: the type of a column, such as uuid, bytea or timestamptz, where JSON does not
    /// tell it; may be given several times [default: text for a string or null, boolean, int8 or
    /// numeric for a number, jsonb for an object or array]
    #[arg(long = "type", value_name = "COLUMN=TYPE", conflicts_with_all = WITHOUT_ROW)]
    pub types: Vec<ColumnType>,
    /// For --row: how many partitions the topic has
    #[arg(long, value_name = "N", value_parser = partitions, conflicts_with_all = WITHOUT_ROW)]
    pub partitions: Option<NonZeroI32>,
    /// Print one JSON object, for programs
    #[arg(long = "json", num_args = 0, default_value = "text")]
    #[arg(default_missing_value = "json", conflicts_with = "explanation")]
    pub form: Form,
}

/// The type of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnType {
    /// The column.
    pub column: String,
    pub(crate) sql_type: SqlType,
}

impl FromStr for ColumnType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (column, name) = text.rsplit_once('=').ok_or("write COLUMN=TYPE")?;
        Ok(Self { column: column.to_owned(), sql_type: name.parse()? })
    }
}

fn partitions(text: &str) -> Result<NonZeroI32, &'static str> {
    let count = text.parse().ok().filter(|count: &NonZeroI32| count.get() > 0);
    count.ok_or("write a number greater than 0")
}
