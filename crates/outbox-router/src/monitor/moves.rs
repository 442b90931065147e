//! Reads who may move rows of a partitioned outbox to another partition; [`relay::source`] says
//! what such a move does.

use relay::{
    Failure, Outboxes, TableName,
    source::{Catalog, RowMovePrivileges, TableKind},
};
use tokio_postgres::{Client, Row};

use crate::postgres::sql_failure;

/// Roles that may update a column of a partition key. PostgreSQL records each column that a
/// partition key is made of, plainly or in an expression, as an internal dependency of the column
/// on its table (`StorePartitionKey` in heap.c), at each level of partitioning. The right to update
/// such a column through the root is granted for the table or for the column.
const MAY_MOVE: &str = "\
    select n.nspname::text as schema, c.relname::text as name, \
      array_agg(distinct a.attname::text order by a.attname::text) as columns, \
      array_agg(distinct r.rolname::text order by r.rolname::text) as roles \
    from pg_class c join pg_namespace n on n.oid = c.relnamespace \
    cross join lateral pg_partition_tree(c.oid) level \
    join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = level.relid \
      and d.objsubid > 0 and d.deptype = 'i' and d.refclassid = 'pg_class'::regclass \
      and d.refobjid = level.relid and d.refobjsubid = 0 \
    join pg_attribute k on k.attrelid = level.relid and k.attnum = d.objsubid \
    join pg_attribute a on a.attrelid = c.oid and a.attname = k.attname \
    cross join lateral ( \
      select grantee from aclexplode(c.relacl) where privilege_type = 'UPDATE' \
      union select grantee from aclexplode(a.attacl) where privilege_type = 'UPDATE') given \
    left join pg_roles r on r.oid = given.grantee \
    where c.oid = any($1) and not level.isleaf and given.grantee <> c.relowner \
    group by 1, 2 order by 1, 2";

/// Reads them in one statement, and without any where no outbox is partitioned. Where `where` keeps
/// rows that moved from becoming events, nothing is to be said.
///
/// # Errors
/// The server refused the statement, or the connection broke.
pub async fn read(
    client: &Client,
    catalog: &Catalog,
    outboxes: &Outboxes,
) -> Result<Vec<RowMovePrivileges>, Failure> {
    let partitioned = catalog.relations.iter().filter(|table| table.kind == TableKind::Partitioned);
    let partitioned: Vec<u32> = partitioned.map(|table| table.oid.as_u32()).collect();
    if partitioned.is_empty() {
        return Ok(Vec::new());
    }
    let rows = client.query(MAY_MOVE, &[&partitioned]).await.map_err(sql_failure)?;
    let mut found: Vec<RowMovePrivileges> =
        rows.iter().map(moves).collect::<Result<_, _>>().map_err(sql_failure)?;
    found.retain(|moves| !moves.are_filtered(outboxes));
    Ok(found)
}

fn moves(row: &Row) -> Result<RowMovePrivileges, tokio_postgres::Error> {
    let table = TableName { schema: row.try_get("schema")?, name: row.try_get("name")? };
    Ok(RowMovePrivileges { table, columns: row.try_get("columns")?, roles: row.try_get("roles")? })
}
