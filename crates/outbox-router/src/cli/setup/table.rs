//! The outbox table, where `setup` makes it.

use std::io;

use relay::{Case, Failure, OutboxTable};
use tokio_postgres::Client;

use super::{args::SetupArgs, partitions};
use crate::{
    cli::{MissingTable, TaskError},
    config::Config,
};

/// Makes the table if it is missing and `setup` was told to make it.
///
/// # Errors
/// It is missing and was not to be made, or it cannot be published.
pub(super) async fn make_table(
    client: &Client,
    outbox: &OutboxTable,
    args: &SetupArgs,
    config: &Config,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let name = &outbox.name;
    let query = "select c.relkind::text from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                 where n.nspname = $1 and c.relname = $2";
    let found = client.query_opt(query, &[&name.schema, &name.name]).await?;
    let kind: Option<String> = found.map(|row| row.try_get(0)).transpose()?;
    match (kind.as_deref(), args.table) {
        (Some("r" | "p"), _) => writeln!(out, "table {name}: exists already")?,
        (Some(_), _) => {
            let message = format!("{name} is no table that can be published");
            return Err(Failure::of(Case::NoTable, message).into());
        }
        (None, MissingTable::Create) => {
            let statements = partitions::statements(client, args.table_form, outbox, config);
            client.batch_execute(&statements.await?.join("; ")).await?;
            writeln!(out, "table {name}: created")?;
        }
        (None, MissingTable::Expect) => {
            let message = format!("the table {name} does not exist");
            return Err(Failure::of(Case::TableExpected, message).into());
        }
    }
    Ok(())
}
