//! The index by which the rows since a time are found.

use relay::{Case, Failure, Name};
use tokio_postgres::Client;

use super::OutboxRows;
use crate::{
    cli::TaskError,
    postgres::{quote_identifier, quote_table},
    republish::selection::OrderColumn,
};

/// Whether rows can be found by the time at which they were made.
pub(in crate::cli) enum TimeIndex {
    /// By this column.
    Of(OrderColumn),
    /// The table has no column of such a time.
    NoColumn,
    /// No index begins with the column.
    Missing { column: String, statement: String },
}

const IS_INDEXED: &str = "\
    select exists (select from pg_index i join pg_class c on c.oid = i.indexrelid \
      join pg_am m on m.oid = c.relam join pg_attribute a on a.attrelid = i.indrelid \
        and a.attnum = i.indkey[0] \
      where i.indrelid = $1 and i.indisvalid and i.indpred is null and m.amname = 'btree' \
        and a.attname = $2), \
      (select relkind = 'p' from pg_class where oid = $1)";

impl TimeIndex {
    /// Looks for it.
    ///
    /// # Errors
    /// The connection breaks.
    pub(in crate::cli) async fn of(client: &Client, rows: &OutboxRows) -> Result<Self, TaskError> {
        let Some(column) = rows.columns.time.clone().filter(OrderColumn::is_time) else {
            return Ok(Self::NoColumn);
        };
        let row = client.query_one(IS_INDEXED, &[&rows.row.oid, &column.name]).await?;
        if row.try_get(0)? {
            return Ok(Self::Of(column));
        }
        let (table, name) = (quote_table(&rows.row.table), quote_identifier(&column.name));
        // PostgreSQL makes none of a partitioned table concurrently.
        let concurrently = if row.try_get(1)? { "" } else { "concurrently " };
        let statement = format!("create index {concurrently}on {table} ({name})");
        Ok(Self::Missing { column: column.name, statement })
    }

    /// The column, by which rows are found at once.
    ///
    /// # Errors
    /// There is none, or no index of it.
    pub(in crate::cli) fn required(self, rows: &OutboxRows) -> Result<OrderColumn, Failure> {
        let table = &rows.row.table;
        match self {
            Self::Of(column) => Ok(column),
            Self::NoColumn => {
                let what = format!("{table} has no column with the time at which a row was made");
                Err(Failure::of(Case::RecoverTime, what))
            }
            Self::Missing { column, statement } => {
                let what = format!("no index of {table} begins with {column}");
                Err(Failure::of(Case::RecoverIndex, what).naming(Name::Statements, statement))
            }
        }
    }
}
