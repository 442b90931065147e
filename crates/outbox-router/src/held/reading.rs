//! What a pipeline has in the table, for commands.

use relay::{
    Failure,
    held::{TableMark, TableReading, TableVersion},
};

use tokio_postgres::Client;

use super::{existence::are_readable, failure::unsuitable, pipeline::Pipeline};
use crate::postgres::{TextQuery, one_row, quote_literal};

/// Whether the table exists and this role may read it. No error: a role that may not read it is
/// told nothing of it.
pub(crate) async fn is_table_readable(client: &Client) -> Result<bool, tokio_postgres::Error> {
    let statement = "\
        select has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select') \
        from pg_class c join pg_namespace n on n.oid = c.relnamespace \
        where n.nspname = 'outbox_router' and c.relname = 'held'";
    let readable = client.query_opt(statement, &[]).await?;
    Ok(readable.map(|row| row.try_get(0)).transpose()?.unwrap_or(false))
}

/// Reads the table; `None` where there is none, or this role may not read it.
///
/// # Errors
/// The connection broke, or the table is not as `setup` makes it.
pub(crate) async fn read_table(
    sql: &mut impl TextQuery,
    pipeline: &Pipeline,
) -> Result<Option<TableReading>, Failure> {
    let what = "outbox_router.held";
    if !are_readable(sql, what, ["held", "held_version"]).await? {
        return Ok(None);
    }
    let mut row = one_row(sql, what, &statement(pipeline)).await?;
    let (origin, writes, open) = (row.nullable()?, row.parsed()?, row.parsed()?);
    let events = row.parsed()?;
    let version = match origin {
        Some(origin) => Some(TableVersion { origin: parse(&origin)?, writes }),
        None => None,
    };
    Ok(Some(TableReading { mark: TableMark { version, open }, events }))
}

fn statement(Pipeline { name, slot }: &Pipeline) -> String {
    let (name, slot) = (quote_literal(name), quote_literal(slot));
    format!(
        "select replace(v.origin::text, '-', ''), coalesce(v.writes, 0), coalesce(v.open, 0), \
           (select count(*) from outbox_router.held \
             where pipeline = {name} and slot = {slot} \
               and state in ('held', 'requeued', 'dropping')) \
         from (select 1) one \
         left join outbox_router.held_version v on v.pipeline = {name} and v.slot = {slot}"
    )
}

fn parse(origin: &str) -> Result<u128, Failure> {
    u128::from_str_radix(origin, 16)
        .map_err(|_| unsuitable(format!("the origin {origin} is no uuid")))
}
