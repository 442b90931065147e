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
};

/// Connects, describes the tables, or the named one alone, and does the work.
pub(super) async fn with_tables<T>(
    named: Option<&TableName>,
    config: &Config,
    access: Access<'_>,
    work: impl AsyncFnOnce(&Client, Tables) -> Result<T, TaskError>,
) -> Result<T, TaskError> {
    let connected = with_connection(access, "dead-letters", async |client| {
        client.batch_execute(sql::TIMEOUTS).await?;
        client.batch_execute("set timezone = 'UTC'").await?;
        let tables = Tables::read(client, named, config).await?;
        work(client, tables).await
    });
    Box::pin(connected).await
}
