//! Tables that workers poll, or are about to hand over: a slot that is made beside them would send
//! every row twice, and none that was pending before it.

use relay::{TableName, handover::switch::SwitchState};
use tokio_postgres::Client;

use crate::{
    cli::{TaskError, connect::denied},
    held,
    polling::sql::{polled_last, switch::switching},
    postgres::quote_table,
};

/// Whether a switch has handed some of the tables to the stream.
///
/// # Errors
/// A switch of a table is not complete.
pub(super) async fn are_switched(client: &Client, tables: &[TableName]) -> Result<bool, TaskError> {
    if !held::exists(client, "switch").await? {
        return Ok(false);
    }
    let query = "select state from outbox_router.switch where relation = to_regclass($1)";
    let mut are_switched = false;
    for table in tables {
        let Some(row) = client.query_opt(query, &[&quote_table(table)]).await? else { continue };
        let state: String = row.try_get(0)?;
        if let Some(failure) = switching(table, SwitchState::of(&state)) {
            return Err(failure.into());
        }
        are_switched = true;
    }
    Ok(are_switched)
}

/// # Errors
/// Workers of this pipeline poll a table, or did so last.
pub(super) async fn refuse_polled(
    client: &Client,
    pipeline: &str,
    tables: &[TableName],
) -> Result<(), TaskError> {
    if !held::exists(client, "lease").await? || !held::exists(client, "switch").await? {
        return Ok(());
    }
    let polled = polled_last(&mut &*client, pipeline, tables).await.map_err(denied)?;
    Ok(polled.into_iter().next().map_or(Ok(()), Err)?)
}

/// Tables that are added to a stream which a switch has begun are known as its tables, so that no
/// worker takes them.
pub(super) async fn note_streamed(client: &Client, tables: &[TableName]) -> Result<(), TaskError> {
    let insert = "insert into outbox_router.switch (relation, state, \"by\") \
                  select to_regclass(t), 'stream', 'setup' from unnest($1::text[]) t \
                  on conflict (relation) do nothing";
    let quoted: Vec<String> = tables.iter().map(quote_table).collect();
    client.execute(insert, &[&quoted]).await?;
    Ok(())
}
