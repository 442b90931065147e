//! Whether tables of the schema outbox_router exist, and may be read.

use relay::Failure;
use tokio_postgres::Client;

use crate::postgres::{TextQuery, one_row, quote_literal};

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

/// Whether these tables are there, and this role may read all of them.
///
/// # Errors
/// The connection broke.
pub(crate) async fn are_readable<const N: usize>(
    sql: &mut impl TextQuery,
    what: &'static str,
    tables: [&str; N],
) -> Result<bool, Failure> {
    let names = tables.map(quote_literal).join(", ");
    let statement = format!(
        "select count(*) = {N} from pg_class c join pg_namespace n on n.oid = c.relnamespace \
         where n.nspname = 'outbox_router' and c.relname in ({names}) \
           and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')"
    );
    one_row(sql, what, &statement).await?.boolean()
}

/// A table of the schema as a role sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readability {
    Absent,
    /// It is there, and this role may not read it.
    Hidden,
    Readable,
}

/// Each of these tables, as this role sees it.
///
/// # Errors
/// The connection broke.
pub(crate) async fn readability<const N: usize>(
    sql: &mut impl TextQuery,
    what: &'static str,
    tables: [&str; N],
) -> Result<[Readability; N], Failure> {
    let of_each = tables.map(|table| {
        format!(
            "(select has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select') \
             from pg_class c join pg_namespace n on n.oid = c.relnamespace \
             where n.nspname = 'outbox_router' and c.relname = {})",
            quote_literal(table)
        )
    });
    let mut row = one_row(sql, what, &format!("select {}", of_each.join(", "))).await?;
    let mut seen = [Readability::Absent; N];
    for table in &mut seen {
        *table = match row.boolean_nullable()? {
            None => Readability::Absent,
            Some(false) => Readability::Hidden,
            Some(true) => Readability::Readable,
        };
    }
    Ok(seen)
}
