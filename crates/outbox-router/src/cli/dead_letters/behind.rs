//! What is held behind selected dead letters.

use std::collections::HashMap;

use relay::{Code, Failure, Lsn};
use tokio_postgres::{Row, types::ToSql};

use super::{
    args::Place,
    decision::Decision,
    selection::{MATCHES, Places, Selection},
    table::{OF_PIPELINE, OPEN, Table, UNDECIDED, place, place_at},
};
use crate::{cli::TaskError, held::CUT};

/// The key of selected dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BehindKey {
    pub(super) key_hash: Vec<u8>,
    /// The first selected dead letter of the key.
    pub(super) first: Place,
    /// The last event of the key that is held.
    pub(super) last: Place,
    /// Events after `first` that are no dead letters.
    pub(super) events: i64,
    /// Dead letters after `first` about which nobody has decided, and which are not selected.
    pub(super) letters: i64,
}

/// The keys of selected dead letters, with what is held behind these.
#[derive(Debug, Default)]
pub(super) struct Behind(pub(super) Vec<BehindKey>);

impl Behind {
    pub(super) fn events(&self) -> i64 {
        self.0.iter().map(|key| key.events).sum()
    }

    pub(super) fn letters(&self) -> i64 {
        self.0.iter().map(|key| key.letters).sum()
    }
}

/// All that is held is read once, and joined by hashing. A server without statistics, or with those
/// of the time when the table was small, expects one row of each side, and would look through all
/// that is held for each key.
const BY_HASHES: &str = "\
    set local jit = off; set local enable_nestloop = off; set local enable_mergejoin = off";

const BY_ANY_JOIN: &str = "set local enable_nestloop = on; set local enable_mergejoin = on";

impl Table<'_> {
    /// What is held behind the selected dead letters.
    pub(super) async fn behind(
        &self,
        selection: &Selection,
        decision: Decision,
    ) -> Result<Behind, TaskError> {
        // What cannot be decided about holds what is behind it as before.
        let decided =
            if decision.needs_whole_row() { format!("code <> '{CUT}'") } else { "true".to_owned() };
        let query = format!(
            "with selected as materialized ( \
               select distinct on (key_hash) key_hash as of, commit_lsn as first_lsn, \
                 event_index as first_index \
               from outbox_router.held where {OF_PIPELINE} and {UNDECIDED} and {decided} and {MATCHES} \
               order by key_hash, commit_lsn, event_index) \
             select of, first_lsn::text, first_index, \
               max(array[commit_lsn - '0/0'::pg_lsn, event_index])::text[], \
               count(*) filter (where code is null), \
               count(*) filter (where code is not null and ({decided} and {MATCHES}) is not true) \
             from selected join outbox_router.held on key_hash = of \
             where {OF_PIPELINE} and {OPEN} and state = 'held' \
               and (commit_lsn, event_index) >= (first_lsn, first_index) \
             group by of, first_lsn, first_index"
        );
        self.client.batch_execute(&format!("begin read only; {BY_HASHES}")).await?;
        let rows = self.query(&query, &self.with(selection)).await?;
        self.client.batch_execute("commit").await?;
        let key = |row: &Row| {
            Ok(BehindKey {
                key_hash: row.try_get(0)?,
                first: place_at(row, 1)?,
                last: place_of_numbers(row, 3)?,
                events: row.try_get(4)?,
                letters: row.try_get(5)?,
            })
        };
        rows.iter().map(key).collect::<Result<_, TaskError>>().map(Behind)
    }

    /// The held events of these keys, from the first selected dead letter to the last event that
    /// was shown, each with its key. Called in a transaction.
    pub(super) async fn places_behind(
        &self,
        behind: &Behind,
    ) -> Result<HashMap<Place, Vec<u8>>, TaskError> {
        let hashes: Vec<&[u8]> = behind.0.iter().map(|key| key.key_hash.as_slice()).collect();
        let first: Places = behind.0.iter().map(|key| key.first).collect();
        let last: Places = behind.0.iter().map(|key| key.last).collect();
        let query = format!(
            "select commit_lsn::text, event_index, of \
             from unnest($3::bytea[], $4::text[]::pg_lsn[], $5::int8[], $6::text[]::pg_lsn[], \
               $7::int8[]) as r (of, first_lsn, first_index, last_lsn, last_index) \
             join outbox_router.held on key_hash = of \
             where {OF_PIPELINE} and {OPEN} and state = 'held' \
               and (commit_lsn, event_index) >= (first_lsn, first_index) \
               and (commit_lsn, event_index) <= (last_lsn, last_index)"
        );
        let parameters: [&(dyn ToSql + Sync); 7] = [
            &self.pipeline,
            &self.slot,
            &hashes,
            &first.lsns,
            &first.indexes,
            &last.lsns,
            &last.indexes,
        ];
        self.client.batch_execute(BY_HASHES).await?;
        let rows = self.query(&query, &parameters).await?;
        self.client.batch_execute(BY_ANY_JOIN).await?;
        rows.iter().map(|row| Ok((place(row)?, row.try_get(2)?))).collect()
    }

    /// The first selected event that is held behind a dead letter, and this dead letter.
    pub(super) async fn waiting(
        &self,
        selection: &Selection,
    ) -> Result<Option<(Place, Place)>, TaskError> {
        let query = format!(
            "select event_lsn::text, number, commit_lsn::text, event_index \
             from (select key_hash as of, commit_lsn as event_lsn, event_index as number \
               from outbox_router.held \
               where {OF_PIPELINE} and state = 'held' and code is null and {MATCHES} \
               order by commit_lsn, event_index limit 1) event \
             cross join lateral (select commit_lsn, event_index from outbox_router.held \
               where {OF_PIPELINE} and key_hash between event.of and event.of and {OPEN} \
               and {UNDECIDED} and (commit_lsn, event_index) < (event_lsn, number) \
               order by key_hash, commit_lsn, event_index limit 1) letter"
        );
        let rows = self.query(&query, &self.with(selection)).await?;
        rows.first().map(|row| Ok((place_at(row, 0)?, place_at(row, 2)?))).transpose()
    }
}

/// A place as two numbers, the first of which is the LSN's.
fn place_of_numbers(row: &Row, column: usize) -> Result<Place, TaskError> {
    let numbers: Vec<String> = row.try_get(column)?;
    let unreadable = || Failure::new(Code::HeldTable, format!("no place of an event: {numbers:?}"));
    let [lsn, index] = numbers.as_slice() else { return Err(unreadable().into()) };
    let (Ok(lsn), Ok(index)) = (lsn.parse(), index.parse()) else {
        return Err(unreadable().into());
    };
    Ok(Place { commit_lsn: Lsn::from_u64(lsn), index })
}
