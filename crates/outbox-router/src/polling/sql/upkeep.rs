//! What stands beside the rows of a polled table: indexes, trigger, dead rows, and who polls it;
//! and whether the tables of leases can be used. For people: this decides nothing.

use relay::{Code, Failure};
use tokio_postgres::{Client, SimpleQueryRow};

use super::{
    connection::run,
    failure::{malformed, of_table},
    indexes::IndexWork,
    table::PolledTable,
    transaction::{Access, BEGINS, COMMIT, Ways, begin},
};
use crate::postgres::sql_failure;

/// See the module's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpkeepFacts {
    /// Its indexes that are not as they should be.
    pub indexes: Vec<IndexWork>,
    /// Whether a trigger announces new rows.
    pub has_trigger: bool,
    /// Rows that nobody sees any more, as far as the statistics know.
    pub dead: u64,
    /// The others.
    pub live: u64,
    /// The names of the configurations whose workers are alive.
    pub pipelines: Vec<String>,
}

/// Whether the tables of leases can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseTables {
    /// They can.
    Usable,
    /// They cannot: then nobody is known to poll a table.
    Unusable,
}

/// Reads it.
///
/// # Errors
/// The catalog cannot be read, or the connection breaks.
pub async fn upkeep(
    client: &Client,
    table: &PolledTable,
    leases: LeaseTables,
) -> Result<UpkeepFacts, Failure> {
    let oid = table.facts.oid;
    let pipelines = if leases == LeaseTables::Usable {
        format!(
            "select distinct w.name from outbox_router.worker w \
             where w.relation = {oid} and w.seen_until > now() order by 1"
        )
    } else {
        "select null::text where false".to_owned()
    };
    // Of a table without partitions the tree is empty.
    let tree = format!(
        "from (select {oid}::oid as relid \
         union select relid from pg_partition_tree({oid}::oid::regclass)) tree"
    );
    let sql = format!(
        "{}select \
           exists (select from pg_trigger where tgrelid = {oid} \
             and tgname = 'outbox_router_notify' and tgenabled <> 'D'), \
           (select coalesce(sum(pg_stat_get_dead_tuples(relid)), 0) from tree), \
           (select coalesce(sum(pg_stat_get_live_tuples(relid)), 0) from tree) \
         from (select 1) one; {pipelines}{COMMIT}",
        begin(Access::ReadOnly, Ways::Any),
    )
    .replace("from tree", &tree);
    let answers = run(client, &sql).await.map_err(|error| of_table(error, table.name()))?;
    let row = answers.get(BEGINS).and_then(|answer| answer.rows.first());
    let row = row.ok_or_else(|| malformed("says nothing of a table"))?;
    let names = answers.get(BEGINS + 1).into_iter().flat_map(|answer| &answer.rows);
    let number = |place| text(row, place).map(|it| it.and_then(|it| it.parse().ok()).unwrap_or(0));
    Ok(UpkeepFacts {
        indexes: table.index_work(),
        has_trigger: text(row, 0)? == Some("t"),
        dead: number(1)?,
        live: number(2)?,
        pipelines: names
            .filter_map(|row| text(row, 0).transpose())
            .map(|name| name.map(str::to_owned))
            .collect::<Result<_, _>>()?,
    })
}

fn text(row: &SimpleQueryRow, place: usize) -> Result<Option<&str>, Failure> {
    row.try_get(place).map_err(sql_failure)
}

/// Why the tables of leases cannot be used, if they cannot.
///
/// # Errors
/// The connection breaks.
pub async fn leases(client: &Client) -> Result<Option<Failure>, Failure> {
    let sql = format!(
        "{}select t.name, case when to_regclass(t.name) is null then 'does not exist' \
           when not t.has_request then 'lacks the column request: an earlier version has made it' \
           else 'may not be used by ' || current_user end \
         from (select n.name, n.changes, not n.changes or exists (select from pg_attribute \
             where attrelid = to_regclass(n.name) and attname = 'request' and not attisdropped) \
           from (values ('outbox_router.lease', true), ('outbox_router.worker', true), \
             ('outbox_router.mark', false)) n (name, changes)) \
           t (name, changes, has_request) \
         where to_regclass(t.name) is null or not t.has_request \
           or not has_schema_privilege(to_regnamespace('outbox_router')::oid, 'usage') \
           or not (has_table_privilege(to_regclass(t.name), 'select') \
             and has_table_privilege(to_regclass(t.name), 'insert') \
             and (not t.changes or has_table_privilege(to_regclass(t.name), 'update') \
               and has_table_privilege(to_regclass(t.name), 'delete'))){COMMIT}",
        begin(Access::ReadOnly, Ways::Any),
    );
    let answers = run(client, &sql).await.map_err(sql_failure)?;
    let row = answers.get(BEGINS).and_then(|answer| answer.rows.first());
    let Some(row) = row else { return Ok(None) };
    let (name, why) = (text(row, 0)?.unwrap_or_default(), text(row, 1)?.unwrap_or_default());
    Ok(Some(Failure::new(Code::LeaseTable, format!("table {name} {why}"))))
}
