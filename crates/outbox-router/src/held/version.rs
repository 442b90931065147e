//! What this pipeline's writes have made of the table: the row in `outbox_router.held_version`,
//! which every write changes in its own transaction.

use relay::{
    Case, Failure,
    held::{OpenCount, TableMark, TableVersion},
    source::History,
};
use tokio_postgres::{Client, Row};

use super::{
    failure::unsuitable,
    pipeline::Pipeline,
    session::Sql,
    values::{count, get},
};
use crate::postgres::sql_failure;

/// The statement writes, so that it returns when its commit is as durable as the server is
/// configured for: what a session reads may be a commit that still waited for a synchronous standby
/// when its own session was ended, and then this one waits for it.
const READ: &str = "\
    update outbox_router.held_version set writes = writes, \
      open = case when $3 then (select count(*) from outbox_router.held h \
        where h.pipeline = $1 and h.slot = $2 and h.state in ('held', 'requeued', 'dropping')) \
      else open end \
    where pipeline = $1 and slot = $2 \
    returning system_id, uuid_send(origin) as origin, writes, open";

/// The row; `None` before the first write. Open events are counted again where nothing relies on
/// the number that it has.
pub(super) async fn read(
    sql: &mut Sql<'_>,
    Pipeline { name, slot }: &Pipeline,
    open: OpenCount,
) -> Result<Option<Row>, tokio_postgres::Error> {
    let statement = sql.prepared(READ).await?;
    sql.client.query_opt(&statement, &[name, slot, &(open == OpenCount::Counted)]).await
}

/// Checks that the row, and so the pipeline's rows in the table, are of this database cluster: LSNs
/// of another would be compared with those of this stream.
pub(super) fn check_cluster(row: Option<&Row>, stream: &History) -> Result<(), Failure> {
    row.map_or(Ok(()), |row| check_system(get(row, "system_id")?, stream))
}

/// The same, for a command.
///
/// # Errors
/// They are of another cluster, or the table cannot be read.
pub(crate) async fn check_own(
    client: &Client,
    (pipeline, slot): (&str, &str),
    here: &History,
) -> Result<(), Failure> {
    let query =
        "select system_id from outbox_router.held_version where pipeline = $1 and slot = $2";
    let row = client.query_opt(query, &[&pipeline, &slot]).await.map_err(sql_failure)?;
    check_cluster(row.as_ref(), here)
}

fn check_system(theirs: &str, stream: &History) -> Result<(), Failure> {
    if theirs == stream.system_id {
        return Ok(());
    }
    let what = format!(
        "this pipeline's rows in outbox_router.held are of another database cluster (system \
         identifier {theirs}, this one has {}), so their LSNs mean nothing here",
        stream.system_id
    );
    Err(Failure::of(Case::HeldTableElsewhere, what))
}

/// A row of `origin`, `writes` and `open`.
pub(super) fn mark(row: &Row) -> Result<TableMark, Failure> {
    let origin: &[u8] = get(row, "origin")?;
    let origin = origin.try_into().map(u128::from_be_bytes);
    let origin = origin.map_err(|_| unsuitable("an origin is no uuid".to_owned()))?;
    let writes = count(row, "writes")?;
    Ok(TableMark { version: Some(TableVersion { origin, writes }), open: count(row, "open")? })
}

/// As [`mark`], where there may be no row.
pub(super) fn mark_or_none(row: Option<&Row>) -> Result<TableMark, Failure> {
    row.map_or(Ok(TableMark::default()), mark)
}
