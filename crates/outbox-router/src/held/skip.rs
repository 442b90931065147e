//! Whether a person has decided to skip the row at which a session waits.

use relay::{
    Failure,
    held::{EventId, HeldAnswer},
};

use super::{
    failure::{held_failure, is_absent},
    notes::notes,
    pipeline::Pipeline,
    session::Sql,
    values::lsn,
};

/// A skip names the transaction, the table and the id, since a person knows no number within the
/// transaction. One of an earlier version names no table, nor has the table of decisions a column
/// for it.
const SKIP: &str = "\
    select exists (select from outbox_router.decision d \
      where pipeline = $1 and slot = $2 and action = 'skip' and commit_lsn = $3 \
        and event_id is not distinct from $4 \
        and coalesce(to_jsonb(d) ->> 'table_name', $5) = $5)";

/// Reads the decision, and then the notes; without the table there is none.
pub(super) async fn read(
    mut sql: Sql<'_>,
    pipeline: &Pipeline,
    id: EventId,
    named: (Option<&str>, &str),
) -> Result<HeldAnswer, Failure> {
    match is_decided(&mut sql, pipeline, id, named).await {
        Ok(true) => {
            let notes = notes(&mut &*sql.client, &pipeline.name).await?;
            Ok(HeldAnswer::Skipped(Some(notes)))
        }
        Ok(false) => Ok(HeldAnswer::Skipped(None)),
        Err(error) => match is_absent(sql.client, "decision", &error).await {
            Ok(true) => Ok(HeldAnswer::Skipped(None)),
            Ok(false) | Err(_) => Err(held_failure(error, &sql.backend.role)),
        },
    }
}

async fn is_decided(
    sql: &mut Sql<'_>,
    Pipeline { name, slot }: &Pipeline,
    id: EventId,
    (event_id, table): (Option<&str>, &str),
) -> Result<bool, tokio_postgres::Error> {
    let statement = sql.prepared(SKIP).await?;
    let lsn = lsn(id.commit_lsn);
    let row = sql.client.query_one(&statement, &[name, slot, &lsn, &event_id, &table]).await?;
    row.try_get(0)
}
