//! Tables that workers of this pipeline have polled, and that the configuration names no more: one
//! was renamed, and another has its name, or it was taken out, or it was a partition, and is
//! detached. Rows that are pending there are sent by no worker.

use relay::{Case, Failure, Name, OutboxTable, TableName, polling::TableIndex};
use tokio_postgres::Client;

use super::{
    connection::run,
    failure::of_lease,
    kept_from_stream::{is_among, named_oids},
    literals::literal,
    settings::{SqlSettings, TableConfig},
    setup::PARTITION,
    survey::{TableSurvey, survey},
    table::PolledTable,
    transaction::{Access, BEGINS, COMMIT, Ways, begin},
};
use crate::postgres::{quote_table, sql_failure};

/// Former tables with pending rows, each as the table of the configuration whose marks it has, by
/// its place. One that has those of none, or that this role may not read, is left out, unless it
/// was a partition: then it has the marks, and whether rows are pending is not known.
///
/// # Errors
/// The tables of leases are missing, or may not be read (P042); the connection breaks.
pub(crate) async fn former(
    client: &Client,
    tables: &[&TableConfig],
    settings: &SqlSettings,
) -> Result<Vec<(TableIndex, Failure)>, Failure> {
    let names = named_oids(tables.iter().map(|table| &table.outbox.name));
    let statement = statement(&settings.name, &names);
    let answers = run(client, &statement).await.map_err(of_lease)?;
    let mut pending = Vec::new();
    for row in answers.get(BEGINS).into_iter().flat_map(|answer| &answer.rows) {
        let text = |place| row.try_get(place).ok().flatten().unwrap_or_default().to_owned();
        let name = TableName { schema: text(0), name: text(1) };
        let mut unknown = None;
        for (place, table) in tables.iter().enumerate() {
            match count(client, &name, table, settings).await {
                Ok(rows) => {
                    if rows.unsent().is_empty() && text(2) == "t" {
                        forget(client, &text(3)).await;
                    }
                    pending
                        .extend(failure(&name, &rows).map(|failure| (TableIndex(place), failure)));
                    unknown = None;
                    break;
                }
                Err(why) => {
                    // The statement that was refused leaves its transaction open.
                    run(client, "rollback").await.map_err(sql_failure)?;
                    unknown = unknown.or(Some(why));
                }
            }
        }
        if let Some(why) = unknown.filter(|_| text(2) == "t") {
            pending.push((TableIndex(0), uncounted(&name, &why)));
        }
    }
    Ok(pending)
}

/// Forgets that a table was a partition: everything was sent by then. A session that may not write
/// leaves it to another one.
async fn forget(client: &Client, oid: &str) {
    let statement = format!(
        "delete from outbox_router.worker where relation = {oid}::oid and holder = '{PARTITION}'"
    );
    if let Err(error) = run(client, &statement).await {
        tracing::debug!(%error, "the partition stays noted");
    }
}

/// The pending rows of a table as if the configuration of another one were its own.
async fn count(
    client: &Client,
    name: &TableName,
    like: &TableConfig,
    settings: &SqlSettings,
) -> Result<TableSurvey, Failure> {
    let outbox = OutboxTable { name: name.clone(), ..like.outbox.clone() };
    let config = TableConfig { outbox, ..like.clone() };
    let table = PolledTable::read(client, &config, settings).await?;
    survey(client, &table).await
}

fn failure(table: &TableName, rows: &TableSurvey) -> Option<Failure> {
    let unsent = rows.unsent();
    if unsent.is_empty() {
        return None;
    }
    let what = format!(
        "{} in {table}, which workers of this pipeline have polled, and which the \
         configuration does not name: they are sent by no worker",
        unsent.join(" and ")
    );
    Some(named(Failure::of(Case::FormerPending, what), table))
}

fn uncounted(table: &TableName, why: &Failure) -> Failure {
    let what = format!(
        "whether rows are pending in {table} is not known, which was a partition of a polled table, \
         and is detached: {}",
        why.message
    );
    named(Failure::of(Case::FormerPending, what), table)
}

fn named(failure: Failure, table: &TableName) -> Failure {
    failure.naming(Name::Table, table).naming(Name::QuotedTable, quote_table(table))
}

/// Tables without a live worker, that no switch has handed over; not the partitions of one.
fn statement(pipeline: &str, oids: &str) -> String {
    let pipeline = literal(pipeline);
    format!(
        "{}select n.nspname::text, c.relname::text, exists (select from outbox_router.worker w \
             where w.relation = c.oid and w.holder = '{PARTITION}'), c.oid \
         from pg_class c \
         join pg_namespace n on n.oid = c.relnamespace \
         where exists (select from outbox_router.worker w \
             where w.relation = c.oid and w.name = {pipeline}) \
           and not exists (select from outbox_router.worker w \
             where w.relation = c.oid and w.seen_until > now()) \
           and not exists (select from outbox_router.switch h where h.relation = c.oid) \
           and not exists (select from pg_partition_ancestors(c.oid) a \
             join outbox_router.worker w on w.relation = a.relid and w.name = {pipeline} \
             where a.relid <> c.oid) \
           and not {} order by 1, 2{COMMIT}",
        begin(Access::ReadOnly, Ways::Any),
        is_among("c.oid", oids)
    )
}
