//! Which rows of a table a person means, as SQL: those with a value in a column, or, where rows are
//! polled, those that an id names ([`RowNames`]).

use tokio_postgres::Client;

use crate::{
    cli::{TaskError, connect},
    polling::sql::RowNames,
    postgres::{is_data_exception, quote_identifier, quote_literal, quote_table},
    republish::{sql_type::SqlType, table_row::TableRow},
};

/// Rows that are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Sought {
    /// What was typed, as the column writes it; `None` where it is a primary key alone.
    pub(in crate::cli) value: Option<String>,
    /// The column that is searched.
    pub(super) column: Option<String>,
    pub(super) condition: String,
    /// Which of them come first, as SQL; `None`: it is all one.
    pub(super) first: Option<String>,
}

impl Sought {
    /// Rows with a value in a column, which may be a value of none of its type: then `Err` within
    /// says so.
    pub(super) async fn of_column(
        client: &Client,
        described: &TableRow,
        column: &str,
        value: &str,
    ) -> Result<Result<Self, String>, TaskError> {
        let known = described.columns.iter().find(|known| known.name == column);
        let sql_type = known.map_or(SqlType::TEXT, |known| known.sql_type);
        let sql_type = sql_type.cast_name(client).await?;
        let query = format!("select format('%s', {}::{sql_type})", quote_literal(value));
        let value: String = match client.query_one(&query, &[]).await {
            Ok(row) => row.try_get(0)?,
            Err(error) if error.code().is_some_and(is_data_exception) => {
                let table = &described.table;
                return Ok(Err(format!(
                    "column {column} of {table} is {sql_type}, and that is none: type one as \
                     outbox-router tap shows it"
                )));
            }
            Err(error) => return Err(connect::failure(error).into()),
        };
        let table = quote_table(&described.table);
        let (quoted, literal) = (quote_identifier(column), quote_literal(&value));
        Ok(Ok(Self {
            value: Some(value),
            column: Some(column.to_owned()),
            condition: format!("{table}.{quoted} = {literal}"),
            first: None,
        }))
    }

    /// The rows of a polled table that an id names; those come first whose event's id it is. `Err`
    /// within says why it names none. `column`: that of the event's id.
    pub(super) async fn of_id(
        client: &Client,
        names: &RowNames,
        column: &str,
        id: &str,
    ) -> Result<Result<Self, String>, TaskError> {
        let found = names.find(client, id).await.map_err(connect::denied)?;
        Ok(found.map(|found| Self {
            column: found.id.is_some().then(|| column.to_owned()),
            value: found.id,
            condition: found.condition,
            first: found.by_id.map(|by_id| format!("{by_id} is true desc")),
        }))
    }
}
