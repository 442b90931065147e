//! Whether a command may read the rows of a table, and sees every one.

use std::slice;

use tokio_postgres::Client;

use super::{TaskError, connect};
use crate::{
    postgres::{Runs, Touched, hidden_rows, refuse_foreign_code},
    republish::table_row::TableRow,
};

/// Checks that this role sees every row, and that reading them runs no code of a role that it is
/// more than.
///
/// # Errors
/// Rows are hidden (P002), there is such code (P084), or the connection breaks.
pub(super) async fn check(client: &Client, described: &TableRow) -> Result<(), TaskError> {
    if let Some(hidden) = hidden_rows(client, described.oid).await? {
        return Err(connect::lacks(hidden.why, &[hidden.grant]).into());
    }
    let table = Touched::Tables(slice::from_ref(&described.table));
    Ok(refuse_foreign_code(client, table, Runs::Reads).await?)
}
