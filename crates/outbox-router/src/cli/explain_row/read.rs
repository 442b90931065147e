//! Reads the row that `explain --id` names.

use relay::Template;
use tokio_postgres::Client;

use super::sought::Sought;
use crate::{
    cli::{TaskError, connect},
    config::SourceKind,
    polling::sql::RowNames,
    postgres::{TextQuery, quote_table},
    republish::table_row::{Found, TableRow},
};

/// What was read.
pub(super) struct Read {
    pub(super) found: Found,
    /// The columns that were compared with the id.
    pub(super) by: String,
}

/// Fills in the row that has this id, or, where rows are polled, this primary key. `column`: that
/// of the event's id. `Err` within says why there can be no such row.
///
/// # Errors
/// The table may not be read.
pub(super) async fn read(
    client: &Client,
    row: &mut TableRow,
    (column, source): (&str, SourceKind),
    id: &str,
) -> Result<Result<Read, String>, TaskError> {
    match source {
        SourceKind::Polling => read_named(client, row, column, id).await,
        SourceKind::Stream if Template::is_one(column) => {
            Ok(Err(format!("the id of {} is the text {column}; use --row instead", row.table)))
        }
        SourceKind::Stream => {
            let found = row.read(client, column, id).await.map_err(connect::denied)?;
            Ok(Ok(Read { found, by: column.to_owned() }))
        }
    }
}

async fn read_named(
    mut client: &Client,
    row: &mut TableRow,
    column: &str,
    id: &str,
) -> Result<Result<Read, String>, TaskError> {
    let names = RowNames::read(client, &row.table, Some(column)).await.map_err(connect::denied)?;
    let Sought { condition, first, .. } = match Sought::of_id(client, &names, column, id).await? {
        Ok(sought) => sought,
        Err(why) => return Ok(Err(why)),
    };
    // A second row says that the first is not alone.
    let statement = format!(
        "select {} from {} where {condition}{} limit 2",
        row.select_list(),
        quote_table(&row.table),
        first.map_or_else(String::new, |first| format!(" order by {first}")),
    );
    let rows = client.rows("the row of the table", &statement).await.map_err(connect::denied)?;
    let found = match rows.len() {
        0 => Found::None,
        1 => Found::One,
        _ => Found::Several,
    };
    if let Some(mut values) = rows.into_iter().next() {
        row.fill(&mut values)?;
    }
    Ok(Ok(Read { found, by: names.words() }))
}
