//! What sets the rows that are written after a reading of the catalog apart from older ones.

use std::collections::BTreeSet;

use relay::{
    Failure, PgTimestamp,
    delivered::{FullXid, Place},
    source::{Catalog, CatalogRelation, NextRows, Oid},
};

use super::values::{numbers, oid};
use crate::{
    monitor::brief::BEGIN,
    postgres::{TextQuery, one_row},
};

/// The next id, and the clock as [`PgTimestamp`] counts. The `xmax` of a snapshot is behind the
/// last transaction that has ended, and may be one that runs; `age` counts from the next id.
const NEXT: &str = "\
    select xmax + age((xmax % 4294967296)::text::xid), \
      (extract(epoch from clock_timestamp() - timestamptz '2000-01-01 00:00:00+00') * 1000000)::int8 \
    from (select pg_snapshot_xmax(pg_current_snapshot())::text::int8) s (xmax)";

/// Reads it behind a catalog, so that each transaction from the next on, and each row of an empty
/// table, comes after it. Only of places that `remembered` does not have is it asked whether they
/// are empty.
pub(super) async fn read(
    sql: &mut impl TextQuery,
    catalog: &Catalog,
    remembered: Option<&Catalog>,
) -> Result<NextRows, Failure> {
    let places = |catalog: &Catalog| -> BTreeSet<Place> {
        catalog.relations.iter().flat_map(CatalogRelation::places).collect()
    };
    let known = remembered.map(places).unwrap_or_default();
    let new: Vec<Oid> = places(catalog).difference(&known).map(|place| place.oid).collect();
    let empty = empty(sql, &new).await?;
    let mut next = one_row(sql, "the next transaction", NEXT).await?;
    let (xid, at) = (FullXid::from_u64(next.parsed()?), next.parsed()?);
    Ok(NextRows { xid, at: PgTimestamp::from_micros(at), empty })
}

/// Those of the tables that have no page, in all of their partitions. Where PostgreSQL does not say
/// it in time, a table counts as one with rows.
async fn empty(sql: &mut impl TextQuery, tables: &[Oid]) -> Result<BTreeSet<Oid>, Failure> {
    if tables.is_empty() {
        return Ok(BTreeSet::new());
    }
    let name = "the sizes of new outbox tables";
    let statement = format!(
        "select c.oid from pg_class c where c.oid in ({}) \
           and (c.relkind = 'p' or pg_relation_size(c.oid) = 0) \
           and not exists (select from pg_partition_tree(c.oid) p where pg_relation_size(p.relid) > 0)",
        numbers(tables)
    );
    // The size of a file is asked under a lock that a rewrite of the table refuses.
    for begin in BEGIN {
        sql.rows(name, begin).await?;
    }
    let rows = sql.rows(name, &statement).await;
    // COMMIT also ends a transaction that has failed.
    sql.rows(name, "commit").await?;
    match rows {
        Ok(rows) => rows.into_iter().map(|mut row| oid(&mut row)).collect(),
        Err(failure) => {
            tracing::debug!(%failure, "the sizes of new outbox tables cannot be read");
            Ok(BTreeSet::new())
        }
    }
}
