//! How large a table is, as PostgreSQL keeps count.

/// Reads `size_rows`, an estimate, and `size_bytes`, with indexes, of a table with all its
/// partitions: one row, of zeros where there is no such table. `oid` is an expression.
///
/// It needs no right to the table, and waits while the table is rewritten.
pub(crate) fn table_size_sql(oid: &str) -> String {
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
