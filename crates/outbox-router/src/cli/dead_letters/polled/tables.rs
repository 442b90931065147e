//! A connection for the tables that are asked for.

use relay::TableName;
use tokio_postgres::Client;

use crate::{
    cli::{
        TaskError,
        connect::{Access, with_connection},
        polled_tables::Tables,
        sql,
    },
    config::Config,
    postgres::{Runs, Touched, refuse_foreign_code},
};

/// Connects, describes the tables, or the named one alone, and does the work. Versions of rows that
/// were read count on this connection alone.
pub(super) async fn with_tables<T>(
    named: Option<&TableName>,
    config: &Config,
    access: Access<'_>,
    work: impl AsyncFnOnce(&Client, Tables) -> Result<T, TaskError>,
) -> Result<T, TaskError> {
    let connected = with_connection(access, "dead-letters", async |client| {
        client.batch_execute(sql::TIMEOUTS).await?;
        client.batch_execute("set timezone = 'UTC'").await?;
        let tables = tables(client, named, config).await?;
        work(client, tables).await
    });
    Box::pin(connected).await
}

/// The tables, or the named one alone, as they are now.
///
/// # Errors
/// Changing their rows would run another role's code (P084), or the connection breaks.
pub(super) async fn tables(
    client: &Client,
    named: Option<&TableName>,
    config: &Config,
) -> Result<Tables, TaskError> {
    let names = match named {
        Some(named) => vec![named.clone()],
        None => config.outboxes().tables.iter().map(|table| table.name.clone()).collect(),
    };
    refuse_foreign_code(client, Touched::Tables(&names), Runs::Changes).await?;
    Tables::read(client, named, config).await
}
