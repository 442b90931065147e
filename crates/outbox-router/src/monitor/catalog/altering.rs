//! Which transaction alters publication or tables while they are read.

use relay::{
    Failure, Xid,
    source::{CatalogRelation, Oid, Publication},
};

use super::values::{FILTERS_SINCE, numbers};
use crate::postgres::{TextQuery, one_row};

/// Asks for it in the snapshot of the catalog: a visible row whose `xmax` had not ended there. An
/// alteration that begins to write behind the scan commits behind everything that was read before.
pub(super) async fn read(
    sql: &mut impl TextQuery,
    version: i32,
    publication: &Publication,
    relations: &[CatalogRelation],
) -> Result<Option<Xid>, Failure> {
    let tables: Vec<Oid> = relations
        .iter()
        .flat_map(|relation| {
            let children = relation.children.iter().map(|child| child.oid);
            let partitions = relation.partitions.iter().map(|partition| partition.oid);
            children.chain(partitions).chain([relation.oid])
        })
        .collect();
    let publication = publication.oid.as_u32();
    let mut rows = vec![
        format!("select xmax from pg_publication where oid = {publication}"),
        format!("select xmax from pg_publication_rel where prpubid = {publication}"),
    ];
    if version >= FILTERS_SINCE {
        rows.push(format!(
            "select xmax from pg_publication_namespace where pnpubid = {publication}"
        ));
    }
    if !tables.is_empty() {
        let tables = numbers(&tables);
        rows.push(format!("select xmax from pg_class where oid in ({tables})"));
        rows.push(format!("select xmax from pg_inherits where inhrelid in ({tables})"));
    }
    // Of ids in use, none is further behind another than half of what 32 bits count.
    let statement = format!(
        "select min(r.xmax) \
         from (select xmax::text::int8 from ({}) a) r (xmax), \
           (select pg_snapshot_xmin(pg_current_snapshot())::text::int8) s (xmin) \
         where r.xmax > 0 and (r.xmax - s.xmin) & 4294967295 < 2147483648 \
           and pg_xact_status((s.xmin + ((r.xmax - s.xmin) & 4294967295))::text::xid8) \
             is distinct from 'aborted'",
        rows.join(" union all ")
    );
    let xid = one_row(sql, "the alterations under way", &statement).await?.parsed_nullable()?;
    Ok(xid.map(Xid::from_u32))
}
