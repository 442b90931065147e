//! Where the rows of the outbox tables are kept, and which partitions keep them.

use relay::{
    Failure,
    source::{CatalogRelation, Oid, Partition, Persistence, Storage, TableKind, ToastOrigin},
};

use super::values::{numbers, oid, read_name};
use crate::postgres::{TextQuery, TextRow};

/// The first version with DETACH CONCURRENTLY, and so with partitions whose detaching is pending.
const PENDING_SINCE: i32 = 14_00_00;

/// The columns of `c` that [`read_storage`] reads. In `relam`, 2 is the ordinary access method
/// (`HEAP_TABLE_AM_OID` in pg_am.dat); in `xmin`, 2 is the transaction that marks a frozen row. A
/// negative age belongs to a row that was frozen long ago. `pg_squeeze` makes a TOAST table and
/// puts it in place in one transaction, so where it is installed, SET LOGGED cannot be
/// distinguished from it; nor, as far as is known, from REPACK CONCURRENTLY of PostgreSQL 19.
pub(super) const STORAGE: &str = "\
    case c.relkind when 'f' then 'f' else c.relpersistence::text end, \
    nullif(c.reltoastrelid, 0), \
    case \
      when c.relam <> 2 or put.xmin is null or put.xmin <> made.xmin or made.xmin::text = '2' \
        or exists (select from pg_extension where extname = 'pg_squeeze') \
        or current_setting('server_version_num')::int >= 190000 \
        then 'tool' \
      when exists (select from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 \
                   and age(a.xmin) between 0 and age(made.xmin)) then 'columns' \
      else 'bare' end";

/// The joins that [`STORAGE`] needs beside `c`: which transaction made the TOAST table, and which
/// put it in its place.
pub(super) const STORED: &str = "\
    left join pg_attribute made on made.attrelid = c.reltoastrelid and made.attnum = 1 \
    left join pg_depend put on put.classid = 'pg_class'::regclass and put.objid = c.reltoastrelid \
      and put.objsubid = 0 and put.refclassid = 'pg_class'::regclass and put.refobjid = c.oid";

pub(super) fn read_storage(row: &mut TextRow) -> Result<Storage, Failure> {
    let (persistence, toast, toast_origin) = (row.text()?, row.parsed_nullable()?, row.text()?);
    Ok(Storage {
        persistence: match persistence.as_str() {
            "f" => Persistence::Foreign,
            "u" => Persistence::Unlogged,
            _ => Persistence::Logged,
        },
        toast: toast.map(Oid::from_u32),
        toast_origin: match toast_origin.as_str() {
            "bare" => ToastOrigin::WithoutColumns,
            "columns" => ToastOrigin::WithColumns,
            _ => ToastOrigin::ByTool,
        },
    })
}

/// Adds the partitions of all levels. A partition that is partitioned itself counts as logged: it
/// has no rows, and whether the server marks it as unlogged means nothing.
pub(super) async fn add_partitions(
    sql: &mut impl TextQuery,
    version: i32,
    relations: &mut [CatalogRelation],
) -> Result<(), Failure> {
    let roots = relations.iter().filter(|relation| relation.kind == TableKind::Partitioned);
    let roots: Vec<Oid> = roots.map(|relation| relation.oid).collect();
    if roots.is_empty() {
        return Ok(());
    }
    let here = if version >= PENDING_SINCE { "not i.inhdetachpending" } else { "true" };
    let statement = format!(
        "with recursive part (root, oid, attached) as ( \
           select i.inhparent, i.inhrelid, i.xmin::text from pg_inherits i \
           where i.inhparent in ({}) and {here} \
           union all \
           select part.root, i.inhrelid, i.xmin::text \
           from part join pg_inherits i on i.inhparent = part.oid where {here}) \
         select part.root, c.oid, n.nspname, c.relname, part.attached, c.relkind, {STORAGE} \
         from part join pg_class c on c.oid = part.oid \
         join pg_namespace n on n.oid = c.relnamespace {STORED} order by 1, 2 desc",
        numbers(&roots)
    );
    for mut row in sql.rows("the partitions of the outbox tables", &statement).await? {
        let root = oid(&mut row)?;
        let (oid, name, attached_by) = (oid(&mut row)?, read_name(&mut row)?, row.parsed()?);
        let is_partitioned = row.text()? == "p";
        let mut storage = read_storage(&mut row)?;
        if is_partitioned {
            storage.persistence = Persistence::Logged;
        }
        let partition = Partition { oid, name: Some(name), attached_by, storage };
        if let Some(relation) = relations.iter_mut().find(|relation| relation.oid == root) {
            relation.partitions.push(partition);
        }
    }
    Ok(())
}
