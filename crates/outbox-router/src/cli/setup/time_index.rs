//! `recover` finds the rows of a gap by the time at which they were made, and needs an index for
//! it. Building one takes long on a large table, so it is asked for before anything has happened.

use std::io;

use relay::TableName;
use tokio_postgres::Client;

use crate::{
    cli::{
        TaskError,
        republication::{OutboxRows, TimeIndex},
    },
    config::Config,
};

/// Reports an index that a table lacks, with the statement. Where the table does not fit the
/// configuration, another check says so.
pub(super) async fn report(
    client: &Client,
    config: &Config,
    table: &TableName,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let rows = match OutboxRows::describe(client, config, table).await {
        Ok(rows) => rows,
        Err(TaskError::Failure(_)) => return Ok(()),
        Err(output @ TaskError::Output(_)) => return Err(output),
    };
    if let TimeIndex::Missing { column, statement } = TimeIndex::of(client, &rows).await? {
        writeln!(
            out,
            "note: no index of {table} begins with {column}; outbox-router recover, which brings \
             back what a lost slot had, needs it: {statement}"
        )?;
    }
    Ok(())
}
