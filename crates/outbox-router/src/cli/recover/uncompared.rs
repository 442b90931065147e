//! Tables whose rows may belong to a gap, and that no comparison reads: outboxes that are not
//! configured any more, and partitions that were detached.

use relay::{
    Case, Failure, Name, TableName,
    delivered::compared::FirstOfGap,
    delivered::detached::{GonePartition, gone_partitions},
    source::{Catalog, CatalogRelation, TableKind, give_up, publication::statements},
};

use super::recovery::Recovery;
use crate::{
    cli::TaskError,
    retention::{NEXT, precedes_sql},
};

/// Outboxes and partitions of which nothing is left.
#[derive(Default)]
pub(super) struct Dropped {
    pub(super) outboxes: Vec<TableName>,
    pub(super) partitions: Vec<GonePartition>,
}

/// Outboxes of which nothing is left.
///
/// # Errors
/// Another outbox of the witness is not compared.
pub(super) fn check_outboxes(
    recovery: &Recovery<'_>,
    now: &Catalog,
) -> Result<Vec<TableName>, Failure> {
    let required = recovery.required(now);
    let without = required.without(recovery.tables);
    if without.is_empty() {
        return Ok(required.dropped().to_vec());
    }
    let what = format!(
        "tables were outboxes when the gap began, and are not configured or not published now, so \
         their rows would not be compared: {}",
        list(without.iter().copied())
    );
    let publication = recovery.source.publication.as_str();
    Err(Failure::of(Case::RecoverUncompared, what)
        .naming(Name::AddTables, statements::add(publication, &without))
        .naming(Name::GiveUp, give_up(without)))
}

/// Partitions of which nothing is left.
///
/// # Errors
/// A table was a partition since the gap began, or may have been one: no comparison reads its rows.
pub(super) async fn check_partitions(
    recovery: &Recovery<'_>,
    now: &Catalog,
    first: Option<FirstOfGap>,
) -> Result<Vec<GonePartition>, TaskError> {
    let Recovery { witness, reading, tables, books, args, .. } = *recovery;
    let mut gone = gone_partitions(witness, (&reading.server.history, now), tables);
    let mut compared: Vec<u32> = gone.iter().map(|gone| gone.oid.as_u32()).collect();
    let query = "select c.oid, n.nspname::text, c.relname::text \
         from pg_class c join pg_namespace n on n.oid = c.relnamespace \
         where c.oid = any($1) and c.relkind in ('r', 'p', 'f') order by 2, 3";
    let mut known = Vec::new();
    for row in books.query(query, &[&compared]).await? {
        let (oid, schema, name): (u32, _, _) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        gone.retain(|gone| gone.oid.as_u32() != oid);
        known.push(TableName { schema, name });
    }
    let of_tables = now.relations.iter().filter(|table| tables.contains(&table.name));
    compared.extend(of_tables.clone().map(|table| table.oid.as_u32()));
    let mut alike = Vec::new();
    for root in of_tables.filter(|table| table.kind == TableKind::Partitioned) {
        alike.extend(alike_since(recovery, root, &compared, first).await?);
    }
    for named in [&mut known, &mut alike] {
        named.retain(|table| !args.given_up.contains(table));
    }
    if known.is_empty() && alike.is_empty() {
        return Ok(gone);
    }
    let mut what = Vec::new();
    if !known.is_empty() {
        let known = list(&known);
        what.push(format!("tables were partitions when the gap began, and are none now: {known}"));
    }
    if !alike.is_empty() {
        what.push(format!(
            "tables may have been partitions within the gap, since they have the columns of an \
             outbox and were made or altered since it began: {}",
            list(&alike)
        ));
    }
    let what = format!("{}; their rows would not be compared", what.join("; "));
    Err(Failure::of(Case::RecoverDetached, what)
        .naming(Name::GiveUp, give_up(known.iter().chain(&alike)))
        .into())
}

/// Tables that may have been partitions of an outbox within the gap. No reading of a router need
/// have seen them, and the catalog does not say it; but DETACH writes the table's row of
/// `pg_class`, and a partition has the columns of its root. A column that the root was given since
/// is no part of that, unless the root is younger than the gap's first transaction. Where that is
/// not known, any table may be one.
async fn alike_since(
    recovery: &Recovery<'_>,
    root: &CatalogRelation,
    compared: &[u32],
    first: Option<FirstOfGap>,
) -> Result<Vec<TableName>, TaskError> {
    let precedes = |xmin: &str| first.map(|first| precedes_sql(first.xid(), xmin, NEXT));
    let altered = precedes("c.xmin").map(|earlier| format!("not {earlier}"));
    let altered = altered.unwrap_or_else(|| "true".to_owned());
    let older = precedes("a.xmin").unwrap_or_else(|| "true".to_owned());
    let query = format!(
        "select n.nspname::text, c.relname::text \
         from pg_class c join pg_namespace n on n.oid = c.relnamespace \
         where c.relkind in ('r', 'p', 'f') and c.relpersistence <> 't' and {altered} \
           and c.oid <> all ($2::oid[]) and n.nspname <> 'outbox_router' \
           and not exists (select from unnest($2::oid[]) root (oid), \
               lateral pg_partition_tree(root.oid) part where part.relid = c.oid) \
           and not exists (select from pg_attribute a \
             where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped \
               and ({older} or not exists (select from pg_attribute a \
                 where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped and {older})) \
               and not exists (select from pg_attribute b where b.attrelid = c.oid \
                 and b.attnum > 0 and b.attname = a.attname and b.atttypid = a.atttypid)) \
         order by 1, 2"
    );
    let mut alike = Vec::new();
    for row in recovery.books.query(&query, &[&root.oid.as_u32(), &compared]).await? {
        alike.push(TableName { schema: row.try_get(0)?, name: row.try_get(1)? });
    }
    Ok(alike)
}

fn list<'t>(tables: impl IntoIterator<Item = &'t TableName>) -> String {
    tables.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
