//! How large a table is, and how old its oldest row.

use relay::Failure;

use super::{
    report::TableFigures,
    session::{Session, number, optional},
    target::Target,
};

/// Reads the rows, as PostgreSQL keeps count, and the bytes of a table with all its partitions.
pub(crate) fn size_sql(oid: u32) -> String {
    format!(
        "select coalesce(sum(case when s.n_live_tup > 0 then s.n_live_tup \
             else greatest(c.reltuples, 0) end), 0)::int8 as size_rows, \
           coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 as size_bytes \
         from (select relid::oid as oid from pg_partition_tree({oid}) where isleaf \
           union select {oid}::oid) r \
         join pg_class c on c.oid = r.oid left join pg_stat_all_tables s on s.relid = c.oid \
         where c.relkind = 'r'"
    )
}

/// Reads the figures. Rows are estimated, as PostgreSQL keeps count.
///
/// # Errors
/// A statement fails.
pub(super) async fn read(session: Session<'_>, target: &Target) -> Result<TableFigures, Failure> {
    let size = session.row(&size_sql(target.oid)).await?;
    let (column, table) = (target.time.quoted(), target.quoted());
    let oldest = match target.check_index() {
        Ok(()) => {
            let age = target.time.age("o.at");
            let query = format!(
                "select {age} from (select (select t.{column} from {table} t \
                   where t.{column} is not null order by t.{column} limit 1) as at) o"
            );
            optional(&session.row(&query).await?, 0)?.and_then(|age| age.parse::<f64>().ok())
        }
        // It would read the whole table.
        Err(_) => None,
    };
    Ok(TableFigures {
        rows: number(&size, 0)?,
        bytes: number(&size, 1)?,
        oldest_seconds: oldest.unwrap_or_default().max(0.0),
    })
}
