//! Foreign keys with `on delete cascade` from one outbox to another, or to itself: a statement that
//! deletes delivered rows would delete rows with them of which nothing shows that they are.

use relay::{Case, Failure, Name, TableName};

use super::{kept_from_stream::named_oids, setup::has_held};
use crate::{
    held::are_readable,
    postgres::{TextQuery, quote_identifier, quote_table},
};

/// Checks that no row of an outbox goes with the rows of this table and of its partitions. Outboxes
/// are the table itself, those of the configuration, and each that workers have polled, as far as
/// this role may read that.
///
/// # Errors
/// One does (P038), or the connection breaks.
pub(crate) async fn refuse_cascades(
    sql: &mut impl TextQuery,
    (table, oid): (&TableName, u32),
    configured: impl Iterator<Item = &TableName> + Send,
) -> Result<(), Failure> {
    let mut outboxes = format!("select {oid}::oid union {}", named_oids(configured));
    if are_readable(sql, "outbox_router.worker", ["worker"]).await? {
        outboxes.push_str(" union select relation::oid from outbox_router.worker where ");
        outboxes.push_str(&has_held());
    }
    let Some(mut row) = sql.rows("pg_constraint", &cascade(oid, &outboxes)).await?.pop() else {
        return Ok(());
    };
    let outbox = TableName { schema: row.text()?, name: row.text()? };
    let key = quote_identifier(&row.text()?);
    let what = format!(
        "the foreign key {key} deletes rows of {outbox} with those of {table}: nothing shows that \
         they were sent, so no row of {table} is removed"
    );
    let drop = format!("alter table {} drop constraint {key}", quote_table(&outbox));
    Err(Failure::of(Case::RetentionCascades, what)
        .naming(Name::Table, outbox)
        .naming(Name::Statements, drop))
}

/// Schema and name of the first outbox whose rows go, and the key by which they do; of a partition
/// those of its root.
fn cascade(oid: u32, outboxes: &str) -> String {
    format!(
        "with recursive gone (relation, key) as ( \
           select {oid}::oid, null::name \
           union select relid::oid, null from pg_partition_tree({oid}) \
           union select k.conrelid, k.conname from gone \
             join pg_constraint k on k.confrelid = gone.relation \
             where k.contype = 'f' and k.confdeltype = 'c'), \
         outbox (relation) as ({outboxes}) \
         select n.nspname, c.relname, gone.key from gone \
         join pg_class c on c.oid = gone.relation or c.oid in ( \
           select relid from pg_partition_ancestors(gone.relation)) \
         join outbox on outbox.relation = c.oid \
         join pg_namespace n on n.oid = c.relnamespace \
         where gone.key is not null order by 1, 2, 3 limit 1"
    )
}
