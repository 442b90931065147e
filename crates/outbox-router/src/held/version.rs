//! What this pipeline's writes have made of the table: the row in `outbox_router.held_version`,
//! which every write changes in its own transaction.

use relay::{
    Failure,
    held::{TableMark, TableVersion},
};
use tokio_postgres::Row;

use super::{
    failure::unsuitable,
    pipeline::Pipeline,
    session::Sql,
    values::{count, get},
};

const READ: &str = "\
    select uuid_send(origin) as origin, writes, open from outbox_router.held_version \
    where pipeline = $1 and slot = $2";

/// The row as it was before the first write, if there is none.
pub(super) async fn read(
    sql: &mut Sql<'_>,
    Pipeline { name, slot }: &Pipeline,
) -> Result<Option<Row>, tokio_postgres::Error> {
    let statement = sql.prepared(READ).await?;
    sql.client.query_opt(&statement, &[name, slot]).await
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
