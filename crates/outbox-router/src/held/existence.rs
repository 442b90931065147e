//! Whether a table of the schema outbox_router exists.

use tokio_postgres::Client;

/// `to_regclass` would be refused to a role that may not use the schema.
const EXISTS: &str = "\
    select exists (select from pg_catalog.pg_class c \
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
      where n.nspname = 'outbox_router' and c.relname = $1)";

/// Whether the table exists, for any role.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn exists(client: &Client, table: &str) -> Result<bool, tokio_postgres::Error> {
    client.query_one(EXISTS, &[&table]).await?.try_get(0)
}
