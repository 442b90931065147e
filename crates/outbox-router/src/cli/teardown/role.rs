//! The router's role, which `teardown --role` drops.

use tokio_postgres::Client;

use crate::cli::{TaskError, Terminal, sql};

/// Whether a query for something of this name finds it.
pub(super) async fn exists(client: &Client, query: &str, name: &str) -> Result<bool, TaskError> {
    Ok(client.query_opt(query, &[&name]).await?.is_some())
}

/// Drops the router's role, and says so.
pub(super) async fn drop_role(
    client: &Client,
    role: &str,
    terminal: &mut Terminal<'_>,
) -> Result<(), TaskError> {
    if !exists(client, "select from pg_roles where rolname = $1", role).await? {
        writeln!(terminal.out, "role {role}: does not exist")?;
        return Ok(());
    }
    let database: String =
        client.query_one("select current_database()::text", &[]).await?.try_get(0)?;
    for statement in sql::drop_role(&database, role) {
        client.batch_execute(&statement).await?;
    }
    writeln!(terminal.out, "role {role}: dropped")?;
    Ok(())
}
