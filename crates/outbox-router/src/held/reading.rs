//! What a pipeline has in the table, for commands.

use relay::{
    Failure, TableName,
    held::{TableFound, TableMark, TableReading, TableVersion},
};

use tokio_postgres::Client;

use super::{
    existence::{Readability, readability},
    failure::unsuitable,
    pipeline::Pipeline,
};
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

/// The condition, after others, that an event is not of another table of the configuration. It may
/// be of this one, which perhaps had another name.
pub(crate) fn not_of_others<'n>(
    table: &TableName,
    configured: impl Iterator<Item = &'n TableName>,
) -> String {
    let others = configured.filter(|other| *other != table);
    let others: Vec<String> = others.map(|other| quote_literal(&other.to_string())).collect();
    match others.as_slice() {
        [] => String::new(),
        names => format!(" and table_name not in ({})", names.join(", ")),
    }
}

/// Looks for the table, and reads it where this role may.
///
/// # Errors
/// The connection broke, or the table is not as `setup` makes it.
pub(crate) async fn read_table(
    sql: &mut impl TextQuery,
    pipeline: &Pipeline,
) -> Result<TableFound, Failure> {
    let what = "outbox_router.held";
    let [held, version] = readability(sql, what, ["held", "held_version"]).await?;
    if held == Readability::Hidden
        || (held, version) == (Readability::Readable, Readability::Hidden)
    {
        return Ok(TableFound::Hidden);
    }
    let statement = statement(pipeline, (held, version));
    let mut row = one_row(sql, what, &statement).await?;
    let (origin, writes, open) = (row.nullable()?, row.parsed()?, row.parsed()?);
    let events = row.parsed()?;
    let version = match origin {
        Some(origin) => Some(TableVersion { origin: parse(&origin)?, writes }),
        None => None,
    };
    let mark = TableMark { version, open };
    Ok(match held {
        Readability::Readable => TableFound::Read(TableReading { mark, events }),
        Readability::Absent | Readability::Hidden => TableFound::Absent(mark),
    })
}

/// What the writes have recorded, and how many events are open; nothing of a table that cannot be
/// read.
fn statement(
    Pipeline { name, slot }: &Pipeline,
    (held, version): (Readability, Readability),
) -> String {
    let (name, slot) = (quote_literal(name), quote_literal(slot));
    let events = if held == Readability::Readable {
        format!(
            "(select count(*) from outbox_router.held \
               where pipeline = {name} and slot = {slot} \
                 and state in ('held', 'requeued', 'dropping'))"
        )
    } else {
        "0".to_owned()
    };
    if version != Readability::Readable {
        return format!("select null, 0, 0, {events}");
    }
    format!(
        "select replace(v.origin::text, '-', ''), coalesce(v.writes, 0), coalesce(v.open, 0), \
           {events} \
         from (select 1) one \
         left join outbox_router.held_version v on v.pipeline = {name} and v.slot = {slot}"
    )
}

fn parse(origin: &str) -> Result<u128, Failure> {
    u128::from_str_radix(origin, 16)
        .map_err(|_| unsuitable(format!("the origin {origin} is no uuid")))
}
