//! Writes decisions. Two people may decide at once: each row is locked before it is changed, in the
//! order of the primary key, so that they wait for each other instead of blocking each other; and a
//! row about which somebody has decided meanwhile is left as it is.

use tokio_postgres::types::ToSql;

use super::{
    args::Place,
    decision::Decision,
    selection::Places,
    table::{Table, UNDECIDED, place},
};
use crate::cli::{TaskError, decision_args::Decider};

/// The places `$3`, `$4`.
const CHOSEN: &str = "pipeline = $1 and slot = $2 and (commit_lsn, event_index) in \
    (select lsn::pg_lsn, index from unnest($3::text[], $4::int8[]) as chosen (lsn, index))";

/// Decides about those of the dead letters about which nobody has decided, all or none. Returns
/// how many these are.
pub(super) async fn decide(
    table: &Table<'_>,
    decision: Decision,
    places: impl Iterator<Item = Place>,
    decider: &Decider<'_>,
) -> Result<usize, TaskError> {
    let chosen: Places = places.collect();
    // A rollback needs no statement: on an error the command ends, and with it the session.
    table.client.batch_execute("begin isolation level read committed read write").await?;
    let lock = format!(
        "select commit_lsn::text, event_index from outbox_router.held where {CHOSEN} \
         and {UNDECIDED} order by pipeline, slot, commit_lsn, event_index for update"
    );
    let rows = table.query(&lock, &with(table, &chosen)).await?;
    let locked: Places =
        rows.iter().map(place).collect::<Result<Vec<_>, _>>()?.into_iter().collect();
    let mut parameters = with(table, &locked);
    let state = decision.state();
    parameters.push(&state);
    let update =
        format!("update outbox_router.held set state = $5, decided_at = now() where {CHOSEN}");
    table.query(&update, &parameters).await?;
    let action = decision.verb();
    parameters.pop();
    let decided: [&(dyn ToSql + Sync); 3] = [&action, &decider.reason, &decider.by];
    parameters.extend(decided);
    let record = format!(
        "insert into outbox_router.decision \
         (pipeline, slot, commit_lsn, event_index, event_id, action, reason, decided_by) \
         select pipeline, slot, commit_lsn, event_index, event_id, $5, $6, \
           $7::text || ' as ' || session_user \
         from outbox_router.held where {CHOSEN} order by commit_lsn, event_index"
    );
    table.query(&record, &parameters).await?;
    table.client.batch_execute("commit").await?;
    Ok(rows.len())
}

fn with<'p>(table: &'p Table<'_>, places: &'p Places) -> Vec<&'p (dyn ToSql + Sync)> {
    vec![&table.pipeline, &table.slot, &places.lsns, &places.indexes]
}
