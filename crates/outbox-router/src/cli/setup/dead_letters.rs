//! The tables of dead letters, which `[on_error]` needs.

use std::io;

use tokio_postgres::Client;

use super::router_schema;
use crate::{
    cli::{SetupArgs, TaskError, connect::Access},
    held::{
        self,
        schema::{self, Statement},
    },
};

/// The router's role, which gets the grants.
pub(super) fn role(args: &SetupArgs, access: Access<'_>) -> Option<String> {
    args.role.clone().or_else(|| access.role_of_router())
}

/// Prints the statements.
pub(super) fn print(role: Option<&str>, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
    for Statement { purpose, sql } in schema::statements(role) {
        writeln!(out, "-- {purpose}\n{sql};\n")?;
    }
    Ok(())
}

/// Runs the statements; what exists stays as it is.
pub(super) async fn make(
    client: &Client,
    role: Option<&str>,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    router_schema::refuse_unready(client, role).await?;
    let existed = held::exists(client, "held").await?;
    for Statement { sql, .. } in schema::statements(role) {
        client.batch_execute(&sql).await?;
    }
    let made = if existed { "exists already" } else { "created" };
    let may = role.map(|role| format!(", {role} may use it")).unwrap_or_default();
    writeln!(out, "table outbox_router.held: {made}{may}")?;
    Ok(())
}
