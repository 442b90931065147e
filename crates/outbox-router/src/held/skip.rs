//! Whether a person has decided to skip the row at which a session waits.

use relay::{
    Failure,
    held::{EventId, HeldAnswer},
};

use super::{
    failure::{held_failure, is_absent},
    pipeline::Pipeline,
    session::Sql,
    values::lsn,
};

/// A skip names the transaction and the id, since a person knows no number within the transaction.
const SKIP: &str = "\
    select exists (select from outbox_router.decision \
      where pipeline = $1 and slot = $2 and action = 'skip' and commit_lsn = $3 \
        and event_id is not distinct from $4)";

/// Reads the decision. Without the table nobody can have decided.
pub(super) async fn read(
    mut sql: Sql<'_>,
    pipeline: &Pipeline,
    id: EventId,
    event_id: Option<&str>,
) -> Result<HeldAnswer, Failure> {
    match exists(&mut sql, pipeline, id, event_id).await {
        Ok(is_skipped) => Ok(HeldAnswer::Skipped(is_skipped)),
        Err(error) => match is_absent(sql.client, "decision", &error).await {
            Ok(true) => Ok(HeldAnswer::Skipped(false)),
            Ok(false) | Err(_) => Err(held_failure(error, &sql.backend.role)),
        },
    }
}

async fn exists(
    sql: &mut Sql<'_>,
    Pipeline { name, slot }: &Pipeline,
    id: EventId,
    event_id: Option<&str>,
) -> Result<bool, tokio_postgres::Error> {
    let statement = sql.prepared(SKIP).await?;
    let row =
        sql.client.query_one(&statement, &[name, slot, &lsn(id.commit_lsn), &event_id]).await?;
    row.try_get(0)
}
