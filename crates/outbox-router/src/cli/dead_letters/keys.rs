//! The keys of which events are held, each with its first event. There may be a million events, so
//! the table is read three times as a whole, and joined by hashes. A plan that looks up the events
//! of each key depends on the index that the server takes. Without statistics it expects one row by
//! each, and takes the primary key, with which all events are read for each key, as soon as that
//! has a level less than `held_open`.

use tokio_postgres::Row;

use super::{
    selection::{MATCHES, Selection},
    table::{EVENT, Event, IN_ORDER, OF_PIPELINE, OPEN, Table, UNDECIDED, event},
};
use crate::{cli::TaskError, postgres::utc};

/// The key of held events, or one event that holds no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyLine {
    /// The first dead letter about which nobody has decided; else the first dead letter; else the
    /// first event.
    pub(super) first: Event,
    /// Dead letters about which nobody has decided.
    pub(super) undecided: i64,
    /// Dead letters that the router has yet to deliver or to drop, as was decided.
    pub(super) decided: i64,
    /// Events that are no dead letters, and wait for those before them.
    pub(super) behind: i64,
    /// When the first of these events was committed.
    pub(super) oldest: String,
    /// What nothing keeps from leaving: events before the first undecided dead letter.
    pub(super) leaving: Leaving,
}

/// Events that a router which runs delivers or drops within seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) events: i64,
    /// When the first decision about them was made; `None` where all of them wait for nothing any
    /// more, because their dead letter has left.
    pub(super) since: Option<String>,
}

/// Each event costs the same, whatever the statistics say.
const BEGIN: &str = "\
    begin read only; set local jit = off; set local enable_nestloop = off; \
    set local enable_mergejoin = off; set local enable_indexscan = off; \
    set local enable_indexonlyscan = off; set local enable_sort = off";

/// The place of an event, as a value that has a minimum.
const PLACE: &str = "array[commit_lsn - '0/0'::pg_lsn, event_index]";

impl Table<'_> {
    /// Every key that has a selected open event, by the place of its first dead letter.
    pub(super) async fn keys(&self, selection: &Selection) -> Result<Vec<KeyLine>, TaskError> {
        let query = format!(
            "with keys as materialized (select key_hash as of, \
               count(*) filter (where {UNDECIDED}) as undecided, \
               count(*) filter (where state <> 'held') as decided, \
               count(*) filter (where code is null) as behind, \
               min(committed_at) as oldest, count(*) as events, min(decided_at) as decided_at, \
               coalesce(min({PLACE}) filter (where {UNDECIDED}), \
                 min({PLACE}) filter (where code is not null), min({PLACE})) as first_place \
               from outbox_router.held where {OF_PIPELINE} and {OPEN} \
               group by key_hash having bool_or({MATCHES})), \
             before as materialized (select of, count(*) as events, \
               min(held.decided_at) as since from keys join outbox_router.held on key_hash = of \
               where {OF_PIPELINE} and {OPEN} and undecided > 0 and {PLACE} < first_place \
               group by of) \
             select {EVENT}, undecided, decided, behind, {}, \
               case when undecided = 0 then keys.events else coalesce(before.events, 0) end, \
               {} from keys join outbox_router.held on key_hash = of left join before using (of) \
             where {OF_PIPELINE} and {OPEN} and {PLACE} = first_place \
             {IN_ORDER}",
            utc!("oldest"),
            utc!("case when undecided = 0 then keys.decided_at else before.since end")
        );
        self.client.batch_execute(BEGIN).await?;
        let rows = self.query(&query, &self.with(selection)).await?;
        self.client.batch_execute("commit").await?;
        rows.iter().map(key_line).collect()
    }
}

fn key_line(row: &Row) -> Result<KeyLine, TaskError> {
    Ok(KeyLine {
        first: event(row)?,
        undecided: row.try_get(8)?,
        decided: row.try_get(9)?,
        behind: row.try_get(10)?,
        oldest: row.try_get(11)?,
        leaving: Leaving { events: row.try_get(12)?, since: row.try_get(13)? },
    })
}
