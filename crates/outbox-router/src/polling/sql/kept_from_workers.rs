//! What keeps tables from being polled: a slot of this configuration streams them. The stream looks
//! at no mark, so workers would send once more whatever it has delivered.

use relay::{Case, Failure, Name, TableName};

use super::{
    kept_from_stream::{is_among, published},
    literals::{literal, table_names},
    settings::StreamNames,
};
use crate::{held::are_readable, postgres::TextQuery};

/// Looks for tables that the slot has rows of, and of which no switch says how far they are: one
/// that does decides by itself who takes them. Where the tables of the router are missing, or this
/// role may not read them, nothing is found.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn kept_from_workers(
    sql: &mut impl TextQuery,
    stream: &StreamNames,
    tables: &[TableName],
) -> Result<Vec<(TableName, Failure)>, Failure> {
    let what = "outbox_router.switch";
    if tables.is_empty() || !are_readable(sql, what, ["switch"]).await? {
        return Ok(Vec::new());
    }
    let mut kept = Vec::new();
    for mut row in sql.rows(what, &statement(stream, tables)).await? {
        let table = TableName { schema: row.text()?, name: row.text()? };
        let failure = streamed(&stream.slot, &table);
        kept.push((table, failure));
    }
    Ok(kept)
}

fn streamed(slot: &str, table: &TableName) -> Failure {
    let what = format!(
        "table {table} is streamed by slot {slot}: workers would send every row once more that the \
         stream has delivered"
    );
    Failure::of(Case::StillStreamed, what).naming(Name::Table, table)
}

fn statement(stream: &StreamNames, tables: &[TableName]) -> String {
    format!(
        "select n.nspname::text, c.relname::text from pg_class c \
         join pg_namespace n on n.oid = c.relnamespace \
         where c.relkind in ('r', 'p') and (n.nspname::text, c.relname::text) in ({}) \
           and exists (select from pg_replication_slots s where s.slot_name::text = {} \
             and s.plugin = 'pgoutput' and s.database = current_database() and not s.temporary) \
           and not exists (select from outbox_router.switch h where h.relation = c.oid) \
           and {} order by 1, 2",
        table_names(tables),
        literal(&stream.slot),
        is_among("c.oid", &published(&stream.publication))
    )
}
