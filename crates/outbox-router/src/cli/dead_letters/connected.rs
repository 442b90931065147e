//! The connection of the commands.

use tokio_postgres::Client;

use super::table::Table;
use crate::{
    cli::{
        TaskError,
        connect::{Access, with_connection},
        sql,
    },
    config::Config,
};

/// Connects, and does the work on the rows of this pipeline.
pub(super) async fn with_table<T>(
    config: &Config,
    access: Access<'_>,
    work: impl AsyncFnOnce(&Table<'_>) -> Result<T, TaskError>,
) -> Result<T, TaskError> {
    let connected = with_connection(access, "dead-letters", async |client| {
        // Times without a zone are UTC, as every time that is printed.
        client.batch_execute(sql::TIMEOUTS).await?;
        client.batch_execute("set timezone = 'UTC'").await?;
        work(&of_pipeline(client, config)).await
    });
    Box::pin(connected).await
}

/// The rows of this pipeline.
pub(super) fn of_pipeline<'a>(client: &'a Client, config: &'a Config) -> Table<'a> {
    let (pipeline, slot) = (config.name.as_str(), config.postgres.slot.as_str());
    Table { client, pipeline, slot }
}
