//! Whether workers poll tables that are to be streamed: beside the stream of a slot each of their
//! rows would be sent twice.

use relay::{Case, Failure, Name, TableName, source::Catalog};

use crate::{held::are_readable, postgres::TextQuery};

/// Looks for workers whose leases of these tables have not ended: a failure for each table that has
/// some. What was left by workers that are gone counts for nothing. Where there are no leases, or
/// this role may not read them, nothing is found.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn still_polled(
    sql: &mut impl TextQuery,
    catalog: &Catalog,
    outboxes: &relay::Outboxes,
) -> Result<Vec<Failure>, Failure> {
    let what = "outbox_router.lease";
    let oids: Vec<String> =
        catalog.outbox_tables(outboxes).iter().map(ToString::to_string).collect();
    // A pipeline that never polled has none, and a role that was made for the stream alone may read
    // none.
    if oids.is_empty() || !are_readable(sql, what, ["lease", "worker"]).await? {
        return Ok(Vec::new());
    }
    let mut polled = Vec::new();
    for mut row in sql.rows(what, &statement(&oids.join(", "))).await? {
        let table = TableName { schema: row.text()?, name: row.text()? };
        polled.push(failure(&table, row.parsed()?, &row.json::<Vec<String>>()?));
    }
    Ok(polled)
}

fn failure(table: &TableName, workers: u64, names: &[String]) -> Failure {
    let workers = if workers == 1 { "a worker".to_owned() } else { format!("{workers} workers") };
    let of = if names.is_empty() { String::new() } else { format!(" of {}", names.join(", ")) };
    let what = format!(
        "table {table} is polled by {workers}{of}: beside a stream its rows would be sent twice"
    );
    Failure::of(Case::StillPolled, what).naming(Name::Table, table)
}

/// A partitioned table may be polled as a whole and streamed by its partitions, or the other way
/// round.
fn statement(oids: &str) -> String {
    format!(
        "select n.nspname, c.relname, count(distinct l.holder), \
           coalesce(json_agg(distinct w.name) filter (where w.name is not null), '[]') \
         from outbox_router.lease l \
         join pg_class c on c.oid = l.relation join pg_namespace n on n.oid = c.relnamespace \
         left join outbox_router.worker w on w.relation = l.relation and w.holder = l.holder \
         where l.holder is not null and l.expires_at > now() \
           and (l.relation in ({oids}) \
             or exists (select from pg_partition_ancestors(l.relation) a \
                        where a.relid in ({oids})) \
             or exists (select from pg_class s, pg_partition_ancestors(s.oid) a \
                        where s.oid in ({oids}) and a.relid = l.relation)) \
         group by 1, 2 order by 1, 2"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_who_polls_the_table() {
        let table = TableName { schema: "public".to_owned(), name: "outbox".to_owned() };
        let said = |workers, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            failure(&table, workers, &names).to_string()
        };
        let of = |who: &str| {
            format!(
                "P043: table public.outbox is polled by {who}: beside a stream its rows would be \
                 sent twice"
            )
        };
        assert!(of("a worker of orders").ends_with(&said(1, &["orders"])));
        assert!(of("3 workers of audit, orders").ends_with(&said(3, &["audit", "orders"])));
        assert!(of("2 workers").ends_with(&said(2, &[])));
    }
}
