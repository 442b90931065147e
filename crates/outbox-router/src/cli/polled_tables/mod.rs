//! The polled tables, for commands that read or change their rows.

mod readable;

use relay::{Failure, TableName};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{TaskError, connect};
use crate::{
    config::{Config, SourceKind},
    polling::sql::{self, PolledTable, SqlSettings, kept_from_workers},
    postgres::quote_table,
    prepare,
};
pub(super) use readable::{Failed, Tables};

/// How the tables are polled, by a worker that takes no row.
pub(super) fn settings(config: &Config) -> SqlSettings {
    prepare::polled_sql(config, Uuid::nil())
}

/// That a row of this table is marked as published, as a condition on the table's own name; `None`
/// where rows are not polled.
///
/// # Errors
/// The table cannot be polled.
pub(super) async fn published(
    client: &Client,
    config: &Config,
    name: &TableName,
) -> Result<Option<String>, TaskError> {
    let tables = config.polled_tables();
    let table = tables.iter().find(|table| table.outbox.name == *name);
    let (SourceKind::Polling, Some(table)) = (config.postgres.source, table) else {
        return Ok(None);
    };
    let table = PolledTable::read(client, table, &settings(config)).await;
    Ok(Some(table.map_err(connect::denied)?.published(&quote_table(name))))
}

/// The tables that the slot of this configuration streams.
///
/// # Errors
/// The connection breaks.
pub(super) async fn streamed(client: &Client, config: &Config) -> Result<Vec<Failure>, Failure> {
    streamed_of(client, config, &names(config)).await
}

async fn streamed_of(
    mut client: &Client,
    config: &Config,
    tables: &[TableName],
) -> Result<Vec<Failure>, Failure> {
    let stream = settings(config).stream;
    let kept = kept_from_workers(&mut client, &stream, tables).await?;
    Ok(kept.into_iter().map(|(_, failure)| failure).collect())
}

/// The tables that a switch has handed to the stream, or whose switch is not complete.
///
/// # Errors
/// The connection breaks.
pub(super) async fn handed(client: &Client, config: &Config) -> Result<Vec<Failure>, Failure> {
    sql::handed(client, &names(config)).await
}

/// Tables with pending rows that workers of this pipeline have polled, and that the configuration
/// names no more.
///
/// # Errors
/// The connection breaks.
pub(super) async fn former(client: &Client, config: &Config) -> Result<Vec<Failure>, Failure> {
    let tables = config.polled_tables();
    let tables: Vec<_> = tables.iter().collect();
    let former = sql::former(client, &tables, &settings(config)).await?;
    Ok(former.into_iter().map(|(_, failure)| failure).collect())
}

/// Why workers would take no row of a table: both of these.
///
/// # Errors
/// The connection breaks.
pub(super) async fn unpolled(client: &Client, config: &Config) -> Result<Vec<Failure>, Failure> {
    unpolled_of(client, config, &names(config)).await
}

/// The same, of these tables.
///
/// # Errors
/// The connection breaks.
pub(super) async fn unpolled_of(
    client: &Client,
    config: &Config,
    tables: &[TableName],
) -> Result<Vec<Failure>, Failure> {
    let mut unpolled = sql::handed(client, tables).await?;
    unpolled.extend(streamed_of(client, config, tables).await?);
    Ok(unpolled)
}

fn names(config: &Config) -> Vec<TableName> {
    config.polled_tables().into_iter().map(|table| table.outbox.name).collect()
}
