//! What keeps tables from being streamed. Beside a stream, workers would send each row twice; and
//! before a switch is complete, the stream would send later rows of a key before earlier ones.

use std::fmt;

use relay::{Case, Failure, Name, TableName, handover::switch::SwitchState, source::Catalog};

use super::{literals::table_names, switch::switching};
use crate::{
    held::are_readable,
    postgres::{TextQuery, quote_literal},
};

/// Looks for switches of these tables that are not complete, and for workers of this pipeline whose
/// leases of them have not ended; another pipeline has marks of its own. What was left by workers
/// that are gone counts for nothing. Where there are no such tables of the router, or this role may
/// not read them, nothing is found.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn kept_from_stream(
    sql: &mut impl TextQuery,
    pipeline: &str,
    catalog: &Catalog,
    outboxes: &relay::Outboxes,
) -> Result<Vec<Failure>, Failure> {
    let oids: Vec<String> =
        catalog.outbox_tables(outboxes).iter().map(ToString::to_string).collect();
    let mut kept = Vec::new();
    if oids.is_empty() {
        return Ok(kept);
    }
    let oids = oids.join(", ");
    let what = "outbox_router.switch";
    if are_readable(sql, what, ["switch"]).await? {
        for mut row in sql.rows(what, &switches(&is_among("h.relation", &oids))).await? {
            let table = TableName { schema: row.text()?, name: row.text()? };
            kept.extend(switching(&table, SwitchState::of(&row.text()?)));
        }
    }
    let what = "outbox_router.lease";
    // A pipeline that never polled has none, and a role that was made for the stream alone may read
    // none.
    if are_readable(sql, what, ["lease", "worker"]).await? {
        for mut row in sql.rows(what, &leases(pipeline, &oids)).await? {
            let table = TableName { schema: row.text()?, name: row.text()? };
            kept.push(polled(pipeline, &table, row.parsed()?));
        }
    }
    Ok(kept)
}

/// The same switches, by the names of the tables; where none are configured, by the publication.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn switches_under_way(
    sql: &mut impl TextQuery,
    outboxes: &relay::Outboxes,
    publication: &str,
) -> Result<Vec<Failure>, Failure> {
    let what = "outbox_router.switch";
    if !are_readable(sql, what, ["switch"]).await? {
        return Ok(Vec::new());
    }
    let oids = match outboxes.tables.as_slice() {
        [] => published(publication),
        tables => named_oids(tables.iter().map(|outbox| &outbox.name)),
    };
    let mut under_way = Vec::new();
    for mut row in sql.rows(what, &switches(&is_among("h.relation", &oids))).await? {
        let table = TableName { schema: row.text()?, name: row.text()? };
        under_way.extend(switching(&table, SwitchState::of(&row.text()?)));
    }
    Ok(under_way)
}

/// Why a slot that is missing is no gap: the same switches, and configured tables that were polled
/// last, so that nobody has made it yet, or a switch has dropped it. A publication shows that
/// somebody has made it, and that rows may be missing, unless all of the tables were polled last:
/// a switch leaves a publication that it has not made. Where this role may not read the tables of
/// workers, it finds nothing of the latter.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn kept_from_slot(
    sql: &mut impl TextQuery,
    pipeline: &str,
    outboxes: &relay::Outboxes,
    publication: &str,
) -> Result<Vec<Failure>, Failure> {
    let mut kept = switches_under_way(sql, outboxes, publication).await?;
    if are_readable(sql, "outbox_router.lease", ["lease", "switch", "worker"]).await? {
        let tables = outboxes.tables.iter().map(|outbox| outbox.name.clone());
        let tables: Vec<TableName> = tables.collect();
        let polled = polled_last(sql, pipeline, &tables).await?;
        let is_published =
            format!("select from pg_publication where pubname = {}", quote_literal(publication));
        if polled.len() == tables.len()
            || sql.rows("pg_publication", &is_published).await?.is_empty()
        {
            kept.extend(polled);
        }
    }
    Ok(kept)
}

/// Tables of these that workers of this pipeline poll, or that were polled last, and that no switch
/// has handed over. Where workers of other pipelines alone poll them, they have marks of their own.
///
/// # Errors
/// There are no tables of workers, this role may not read them, or the connection breaks.
pub(crate) async fn polled_last(
    sql: &mut impl TextQuery,
    pipeline: &str,
    tables: &[TableName],
) -> Result<Vec<Failure>, Failure> {
    let mut found = Vec::new();
    if tables.is_empty() {
        return Ok(found);
    }
    let statement = last_holders(pipeline, &named_oids(tables.iter()));
    for mut row in sql.rows("outbox_router.lease", &statement).await? {
        let table = TableName { schema: row.text()?, name: row.text()? };
        found.push(was_polled(pipeline, &table, row.parsed()?));
    }
    Ok(found)
}

fn was_polled(pipeline: &str, table: &TableName, workers: u64) -> Failure {
    let who = match workers {
        0 => "was polled last: a slot has no row that is pending now".to_owned(),
        count => format!(
            "is polled by {count} of {pipeline}'s workers: with a slot its rows would be sent twice"
        ),
    };
    Failure::of(Case::StillPolled, format!("table {table} {who}")).naming(Name::Table, table)
}

fn polled(pipeline: &str, table: &TableName, workers: u64) -> Failure {
    let workers = if workers == 1 { "a worker".to_owned() } else { format!("{workers} workers") };
    let what = format!(
        "table {table} is polled by {workers} of {pipeline}: beside a stream its rows would be sent \
         twice"
    );
    Failure::of(Case::StillPolled, what).naming(Name::Table, table)
}

/// The OIDs of the tables of these names. `to_regclass` would be refused to a role that may not use
/// their schemas, and a stream needs no right on its tables.
pub(crate) fn named_oids<'t>(tables: impl Iterator<Item = &'t TableName>) -> String {
    format!(
        "select p.oid from pg_class p join pg_namespace m on m.oid = p.relnamespace \
         where (m.nspname::text, p.relname::text) in ({})",
        table_names(tables)
    )
}

/// The OIDs of the tables that a publication has.
pub(super) fn published(publication: &str) -> String {
    format!(
        "select p.oid from pg_publication_tables t \
         join pg_namespace m on m.nspname = t.schemaname \
         join pg_class p on p.relnamespace = m.oid and p.relname = t.tablename \
         where t.pubname::text = {}",
        quote_literal(publication)
    )
}

/// A partitioned table may be polled as a whole and streamed by its partitions, or the other way
/// round.
pub(crate) fn is_among(relation: impl fmt::Display, oids: &str) -> String {
    format!(
        "({relation} in ({oids}) \
          or exists (select from pg_partition_ancestors({relation}) a where a.relid in ({oids})) \
          or exists (select from pg_class s, pg_partition_ancestors(s.oid) a \
                     where s.oid in ({oids}) and a.relid = {relation}))"
    )
}

fn switches(which: &str) -> String {
    format!(
        "select n.nspname, c.relname, h.state from outbox_router.switch h \
         join pg_class c on c.oid = h.relation join pg_namespace n on n.oid = c.relnamespace \
         where h.state <> 'stream' and {which} order by 1, 2"
    )
}

fn leases(pipeline: &str, oids: &str) -> String {
    format!(
        "select n.nspname, c.relname, count(distinct l.holder) \
         from outbox_router.lease l \
         join pg_class c on c.oid = l.relation join pg_namespace n on n.oid = c.relnamespace \
         left join outbox_router.worker w on w.relation = l.relation and w.holder = l.holder \
         where l.holder is not null and l.expires_at > now() \
           and coalesce(w.name = {}, true) and {} \
         group by 1, 2 order by 1, 2",
        quote_literal(pipeline),
        is_among("l.relation", oids)
    )
}

/// The rows of a table's shards stay when its workers have gone.
fn last_holders(pipeline: &str, oids: &str) -> String {
    let is_own = format!("w.name = {}", quote_literal(pipeline));
    format!(
        "select n.nspname, c.relname, count(*) filter (where {is_own}) \
         from pg_class c join pg_namespace n on n.oid = c.relnamespace \
         left join outbox_router.worker w on w.relation = c.oid and w.seen_until > now() \
         where c.oid in ({oids}) \
           and exists (select from outbox_router.lease l where l.relation = c.oid) \
           and not exists (select from outbox_router.switch h where h.relation = c.oid) \
         group by 1, 2 having count(w.holder) = 0 or bool_or({is_own}) order by 1, 2"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableName {
        TableName { schema: "public".to_owned(), name: "outbox".to_owned() }
    }

    #[test]
    fn it_is_said_who_polls_the_table() {
        for (workers, who) in [(1, "a worker"), (3, "3 workers")] {
            let expected = format!(
                "P043: table public.outbox is polled by {who} of shop: beside a stream its rows \
                 would be sent twice"
            );
            assert!(expected.ends_with(&polled("shop", &table(), workers).to_string()));
        }
    }

    #[test]
    fn a_table_whose_workers_have_gone_was_polled_last() {
        for (workers, said) in [(0, "was polled last: "), (2, "is polled by 2 of shop's workers: ")]
        {
            let failure = was_polled("shop", &table(), workers);
            assert_eq!(failure.case, Some(Case::StillPolled));
            assert!(failure.message.starts_with(&format!("table public.outbox {said}")));
        }
    }
}
