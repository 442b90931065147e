//! The router's role, which `teardown --role` drops.

use tokio_postgres::Client;

use super::exists::exists;
use crate::cli::{TaskError, Terminal, connect::Access, sql};

/// Prints what drops the router's role.
pub(super) fn print_role(
    role: &str,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<(), TaskError> {
    let database = access.database().unwrap_or_else(|| "postgres".to_owned());
    for statement in sql::drop_role(&database, role) {
        writeln!(terminal.out, "{statement};")?;
    }
    Ok(())
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
