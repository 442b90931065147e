//! A row that PostgreSQL stores and cannot print ends the reading of all, and PostgreSQL does not
//! say which it is.

use relay::{Case, Code, Failure, handover::Position};
use tokio_postgres::Client;

use super::OutboxRows;
use crate::{
    postgres::sql_failure,
    republish::{
        rows::{Next, Rows},
        selection::{Query, is_one_of},
    },
};

/// An error within a transaction ends it, and with it the snapshot that has the rows.
pub(super) async fn prepare(reader: &Client) -> Result<(), Failure> {
    reader.batch_execute("savepoint outbox_router_rows").await.map_err(sql_failure)
}

/// Names the row at which the server has stopped, the next one behind a place in the order, if it
/// is such a row: read alone, it fails again.
pub(super) async fn name(
    reader: &Client,
    (rows, query): (&OutboxRows, &Query),
    behind: Option<Position>,
    failure: &mut Failure,
) {
    if failure.code != Code::ServerError || failure.case.is_some() {
        return;
    }
    if let Some(id) = id_of_unprintable(reader, (rows, query), behind).await {
        let table = &rows.row.table;
        let what = format!("row {id} of {table} cannot be read: {}", failure.message_with_causes());
        *failure = Failure::of(Case::RowUnprintable, what);
    }
}

async fn id_of_unprintable(
    reader: &Client,
    (rows, query): (&OutboxRows, &Query),
    behind: Option<Position>,
) -> Option<String> {
    reader.batch_execute("rollback to savepoint outbox_router_rows").await.ok()?;
    let id = rows.columns.id.as_ref().ok()?;
    let (mut left, mut read) = (query.clone(), 0);
    if let Some(place) = behind {
        left.and(query.from(&place)?);
        read = 1;
    }
    let next = reader.query_opt(&left.text_behind(id, read), &[]).await.ok()??;
    let text: String = next.try_get(0).ok()?;
    let mut alone = query.clone();
    alone.and(is_one_of(&query.column(id), std::slice::from_ref(&text)));
    let copy = alone.copy(rows.encoding());
    let mut rows = Rows::begin(reader, &copy, rows.row.oid).await.ok()?;
    loop {
        match rows.advance().await {
            Ok(Next::Row) => {}
            Ok(Next::End) => return None,
            Err(again) => return (again.code == Code::ServerError).then_some(text),
        }
    }
}
