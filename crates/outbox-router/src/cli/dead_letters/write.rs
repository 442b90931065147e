//! Writes decisions. Two people may decide at once: each row is locked before it is changed, in the
//! order of the primary key, so that they wait for each other instead of blocking each other; and a
//! row about which somebody has decided meanwhile is left as it is.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::ToSql;

use super::{
    args::Place,
    behind::Behind,
    decision::Decision,
    selection::Places,
    table::{Table, place},
};
use crate::cli::{TaskError, decision_args::Decider};

/// The rows `h` at the places `$3`, `$4`. Pipeline and slot are part of the join: a server without
/// statistics would take the pipeline's rows for one, and compare each of them with each place.
const CHOSEN: &str = "\
    (select $1::text as pipeline, $2::text as slot, chosen.* \
      from unnest($3::text[]::pg_lsn[], $4::int8[]) as chosen (commit_lsn, event_index) offset 0) c \
    where h.pipeline = c.pipeline and h.slot = c.slot \
      and h.commit_lsn = c.commit_lsn and h.event_index = c.event_index";

/// Nobody has decided about it, in words that no index's condition has: a server without statistics
/// would take `held_open`, and read for each place all that is open.
const IS_HELD: &str = "h.state not in ('requeued', 'dropping', 'delivered', 'dropped')";

/// How many rows were changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// Of those that were chosen.
    pub(super) chosen: usize,
    /// Of what is held behind these.
    pub(super) behind: usize,
}

/// Decides about those of the dead letters about which nobody has decided, and about what is held
/// `behind` them if this is given: all or none.
pub(super) async fn decide(
    table: &Table<'_>,
    decision: Decision,
    chosen: impl Iterator<Item = Place>,
    behind: Option<&Behind>,
    decider: &Decider<'_>,
) -> Result<Changed, TaskError> {
    let chosen: Vec<Place> = chosen.collect();
    // A rollback needs no statement: on an error the command ends, and with it the session.
    table.client.batch_execute("begin isolation level read committed read write").await?;
    let locked = match behind {
        None => lock(table, &chosen).await?,
        Some(behind) => lock_with_behind(table, &chosen, behind).await?,
    };
    let count = locked.len();
    let chosen: HashSet<Place> = chosen.into_iter().collect();
    let of_chosen = locked.iter().filter(|place| chosen.contains(place)).count();
    let locked: Places = locked.into_iter().collect();
    let mut parameters = with(table, &locked);
    let state = decision.state();
    parameters.push(&state);
    let update =
        format!("update outbox_router.held h set state = $5, decided_at = now() from {CHOSEN}");
    table.query(&update, &parameters).await?;
    let action = decision.verb();
    parameters.pop();
    let decided: [&(dyn ToSql + Sync); 3] = [&action, &decider.reason, &decider.by];
    parameters.extend(decided);
    let record = format!(
        "insert into outbox_router.decision \
         (pipeline, slot, commit_lsn, event_index, event_id, action, reason, decided_by) \
         select h.pipeline, h.slot, h.commit_lsn, h.event_index, h.event_id, $5, $6, \
           $7::text || ' as ' || session_user \
         from outbox_router.held h, {CHOSEN} order by h.commit_lsn, h.event_index"
    );
    table.query(&record, &parameters).await?;
    table.client.batch_execute("commit").await?;
    Ok(Changed { chosen: of_chosen, behind: count - of_chosen })
}

async fn lock(table: &Table<'_>, chosen: &[Place]) -> Result<Vec<Place>, TaskError> {
    let chosen: Places = chosen.iter().copied().collect();
    let lock = format!(
        "select h.commit_lsn::text, h.event_index from outbox_router.held h, {CHOSEN} \
         and {IS_HELD} order by h.commit_lsn, h.event_index for update of h"
    );
    table.query(&lock, &with(table, &chosen)).await?.iter().map(place).collect()
}

/// Locks the chosen and what is behind them by one statement, since the order of two could block
/// another person's. What comes after the last event that was shown stays as it is, and so does
/// what is behind a dead letter that somebody else has decided about meanwhile.
async fn lock_with_behind(
    table: &Table<'_>,
    chosen: &[Place],
    behind: &Behind,
) -> Result<Vec<Place>, TaskError> {
    let keys = table.places_behind(behind).await?;
    let places: Vec<Place> = keys.keys().copied().collect();
    let locked = lock(table, &places).await?;
    Ok(behind_chosen(&locked, &keys, chosen))
}

/// Of rows in their order, those that are chosen or come after a chosen one of their key.
fn behind_chosen(locked: &[Place], keys: &HashMap<Place, Vec<u8>>, chosen: &[Place]) -> Vec<Place> {
    let chosen: HashSet<Place> = chosen.iter().copied().collect();
    let mut begun: HashSet<&[u8]> = HashSet::new();
    let mut behind = Vec::with_capacity(locked.len());
    for place in locked {
        let Some(key) = keys.get(place) else { continue };
        if chosen.contains(place) {
            begun.insert(key);
        }
        if begun.contains(key.as_slice()) {
            behind.push(*place);
        }
    }
    behind
}

fn with<'p>(table: &'p Table<'_>, places: &'p Places) -> Vec<&'p (dyn ToSql + Sync)> {
    vec![&table.pipeline, &table.slot, &places.lsns, &places.indexes]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_before_the_first_chosen_dead_letter_of_a_key_stays() {
        let place = |n: u64| Place { commit_lsn: relay::Lsn::from_u64(n), index: 0 };
        let rows = [(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "c"), (6, "b"), (7, "a")];
        let keys = rows.map(|(n, key)| (place(n), key.as_bytes().to_vec())).into();
        // The first choice of key a, at 1, is locked no more: somebody else has decided about it.
        let locked = [2, 3, 4, 5, 6, 7].map(place);
        let behind = behind_chosen(&locked, &keys, &[place(1), place(3), place(4)]);
        assert_eq!(behind, [place(3), place(4), place(6), place(7)]);
    }
}
