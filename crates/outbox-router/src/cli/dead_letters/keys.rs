//! The keys of which events are held, each with its first event. There may be a million events, so
//! they are counted in one pass in the order of the table, and only the first event of each key is
//! looked up by the index `held_open`. In the order of that index, as a server without statistics
//! would read the table, nearly every row is on another page than the one before.

use std::collections::HashMap;

use tokio_postgres::{Row, types::ToSql};

use super::{
    selection::{MATCHES, Selection},
    table::{EVENT, Event, OF_PIPELINE, OPEN, Table, UNDECIDED, event},
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

/// What is counted of a key.
struct Counts {
    undecided: i64,
    decided: i64,
    behind: i64,
    /// Dead letters.
    letters: i64,
    oldest: String,
    all: i64,
    decided_at: Option<String>,
}

/// Both statements see the table at one time.
const BEGIN: &str = "\
    begin isolation level repeatable read read only; \
    set local jit = off; set local enable_sort = off; set local enable_incremental_sort = off";

/// The table is read in its own order, by the whole of it or by a bitmap of what is open.
const COUNT_IN_ORDER_OF_TABLE: &str = "\
    set local enable_indexscan = off; set local enable_indexonlyscan = off";

/// By the statistics of a table that was small when it was analyzed, all of it would be read for
/// each key.
const LOOK_UP_BY_INDEX: &str = "\
    set local enable_indexscan = on; set local enable_indexonlyscan = on; \
    set local enable_bitmapscan = off; set local enable_seqscan = off";

/// No condition of the query, for which a server without statistics would take the primary key.
const IS_BEFORE: &str = "(h.commit_lsn, h.event_index) < (first.commit_lsn, first.event_index)";

impl Table<'_> {
    /// Every key that has a selected open event, by the place of its first dead letter.
    pub(super) async fn keys(&self, selection: &Selection) -> Result<Vec<KeyLine>, TaskError> {
        self.client.batch_execute(BEGIN).await?;
        let keys = self.count_and_look_up(selection).await;
        self.client.batch_execute("commit").await?;
        keys
    }

    async fn count_and_look_up(&self, selection: &Selection) -> Result<Vec<KeyLine>, TaskError> {
        self.client.batch_execute(COUNT_IN_ORDER_OF_TABLE).await?;
        let mut counted = self.counted(selection).await?;
        self.client.batch_execute(LOOK_UP_BY_INDEX).await?;
        let rows = self.first_events(&counted).await?;
        let mut lines = Vec::with_capacity(rows.len());
        for row in &rows {
            let Some(counts) = counted.remove(row.try_get::<_, &[u8]>(8)?) else { continue };
            let Counts { undecided, decided, behind, oldest, letters: _, all, decided_at } = counts;
            let leaving = if undecided == 0 {
                Leaving { events: all, since: decided_at }
            } else {
                Leaving { events: row.try_get(9)?, since: row.try_get(10)? }
            };
            lines.push(KeyLine { first: event(row)?, undecided, decided, behind, oldest, leaving });
        }
        lines.sort_unstable_by_key(|line| line.first.place);
        Ok(lines)
    }

    async fn counted(&self, selection: &Selection) -> Result<HashMap<Vec<u8>, Counts>, TaskError> {
        let query = format!(
            "select key_hash, count(*) filter (where {UNDECIDED}), \
               count(*) filter (where state <> 'held'), count(*) filter (where code is null), \
               count(code), {}, count(*), {} \
             from outbox_router.held where {OF_PIPELINE} and {OPEN} \
             group by key_hash having bool_or({MATCHES})",
            utc!("min(committed_at)"),
            utc!("min(decided_at)")
        );
        let rows = self.query(&query, &self.with(selection)).await?;
        let counts = |row: &Row| {
            let counts = Counts {
                undecided: row.try_get(1)?,
                decided: row.try_get(2)?,
                behind: row.try_get(3)?,
                letters: row.try_get(4)?,
                oldest: row.try_get(5)?,
                all: row.try_get(6)?,
                decided_at: row.try_get(7)?,
            };
            Ok((row.try_get(0)?, counts))
        };
        rows.iter().map(counts).collect()
    }

    /// The first event of each of these keys, with its key and, if it is undecided, what comes
    /// before it. A range, and in the order of the index, because a server without statistics would
    /// take another index.
    async fn first_events(
        &self,
        counted: &HashMap<Vec<u8>, Counts>,
    ) -> Result<Vec<Row>, TaskError> {
        let hashes: Vec<&[u8]> = counted.keys().map(Vec::as_slice).collect();
        let of_letters: Vec<bool> = counted.values().map(|key| key.letters > 0).collect();
        let of_undecided: Vec<bool> = counted.values().map(|key| key.undecided > 0).collect();
        let query = format!(
            "select {EVENT}, of, before.events, {} \
             from unnest($3::bytea[], $4::bool[], $5::bool[]) \
               as keys (of, of_letters, of_undecided) \
             cross join lateral (select * from outbox_router.held \
               where {OF_PIPELINE} and key_hash between keys.of and keys.of and {OPEN} \
               and (code is not null or not keys.of_letters) \
               and (state = 'held' or not keys.of_undecided) \
               order by key_hash, commit_lsn, event_index limit 1) first \
             cross join lateral (select count(*) filter (where {IS_BEFORE}) as events, \
                 min(h.decided_at) filter (where {IS_BEFORE}) as since \
               from outbox_router.held h \
               where {OF_PIPELINE} and h.key_hash between keys.of and keys.of and h.{OPEN} \
               and keys.of_undecided) before",
            utc!("before.since")
        );
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&self.pipeline, &self.slot, &hashes, &of_letters, &of_undecided];
        self.query(&query, &parameters).await
    }
}
