//! Tables that workers poll, or are about to hand over: a slot that is made beside them would send
//! every row twice, and none that was pending before it.

use relay::{Case, Failure, Name, TableName};
use tokio_postgres::Client;

use crate::{
    cli::TaskError,
    held,
    polling::sql::switch::{SwitchState, switching},
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

/// The workers of a table that are seen, and whether it was ever polled and not handed over since.
const QUERY: &str = "\
    select exists (select from outbox_router.lease l where l.relation = t.oid) \
           and not exists (select from outbox_router.switch s where s.relation = t.oid), \
      array(select w.name from outbox_router.worker w \
            where w.relation = t.oid and w.seen_until > now() order by 1) \
    from pg_class t where t.oid = to_regclass($1)";

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
    for table in tables {
        let Some(row) = client.query_opt(QUERY, &[&quote_table(table)]).await? else { continue };
        let (was_polled, workers): (bool, Vec<String>) = (row.try_get(0)?, row.try_get(1)?);
        let is_of_others = !workers.is_empty() && workers.iter().all(|name| name != pipeline);
        if !was_polled || is_of_others {
            continue;
        }
        let who = match workers.len() {
            0 => "was polled last: a slot has no row that is pending now".to_owned(),
            count => format!(
                "is polled by {count} of {pipeline}'s workers: with a slot its rows would be sent \
                 twice"
            ),
        };
        let what = format!("table {table} {who}");
        return Err(Failure::of(Case::StillPolled, what).naming(Name::Table, table).into());
    }
    Ok(())
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
