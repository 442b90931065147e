//! What is read of `outbox_router.held` and `outbox_router.decision`.

use relay::{Code, Failure};
use tokio_postgres::{Client, Row, types::ToSql};

use super::{
    args::{Place, Since},
    selection::{MATCHES, Selection},
};
use crate::{
    cli::{TaskError, connect, since},
    postgres::utc,
};

/// Lines of a list that are read at once.
const PAGE: i64 = 1_000;

/// The rows of one pipeline.
pub(super) struct Table<'a> {
    pub(super) client: &'a Client,
    /// The configuration's `name`.
    pub(super) pipeline: &'a str,
    pub(super) slot: &'a str,
}

/// A row of `outbox_router.held`, without its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) place: Place,
    pub(super) event_id: Option<String>,
    pub(super) table: String,
    pub(super) key: Option<Vec<u8>>,
    pub(super) committed_at: String,
    /// Why it is a dead letter; `None` for an event that is held behind one.
    pub(super) code: Option<String>,
    /// `held`, `requeued`, `dropping`, `delivered` or `dropped`.
    pub(super) state: String,
}

/// Everything of one event.
pub(super) struct Whole {
    pub(super) event: Event,
    pub(super) error: Option<String>,
    pub(super) held_at: String,
    pub(super) decided_at: Option<String>,
    pub(super) closed_at: Option<String>,
    pub(super) messages: Vec<u8>,
    /// Open events of its key after it.
    pub(super) behind: i64,
    /// The first undecided dead letter of its key before it.
    pub(super) waits_for: Option<Place>,
    pub(super) decisions: Vec<Decided>,
}

/// A row of `outbox_router.decision`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) at: String,
    pub(super) action: String,
    pub(super) by: String,
    pub(super) reason: Option<String>,
}

pub(super) const EVENT: &str = concat!(
    "commit_lsn::text, event_index, event_id, table_name, key, ",
    utc!("committed_at"),
    ", code, state"
);
pub(super) const OF_PIPELINE: &str = "pipeline = $1 and slot = $2";
/// Names the table, since an unqualified `commit_lsn` would be the text of the output.
pub(super) const IN_ORDER: &str = "order by held.commit_lsn, held.event_index";
pub(super) const OPEN: &str = "state in ('held', 'requeued', 'dropping')";
/// A dead letter about which nobody has decided.
pub(super) const UNDECIDED: &str = "state = 'held' and code is not null";

impl Table<'_> {
    /// Reads the time of `--since`; `Err` within says why it is none.
    pub(super) async fn since(
        &self,
        since: Option<&Since>,
    ) -> Result<Result<Option<String>, String>, TaskError> {
        let Some(since) = since else { return Ok(Ok(None)) };
        Ok(since::read(self.client, "--since", since).await?.map(Some))
    }

    /// The next selected open events, in the order in which they were committed; an empty page
    /// comes after the last.
    pub(super) async fn events(
        &self,
        selection: &Selection,
        after: Option<Place>,
    ) -> Result<Vec<Event>, TaskError> {
        let query = format!(
            "select {EVENT} from outbox_router.held where {OF_PIPELINE} and {OPEN} and {MATCHES} \
             and ($10::text is null \
               or (commit_lsn, event_index) > ($10::text::pg_lsn, $11::int8)) \
             {IN_ORDER} limit {PAGE}"
        );
        let lsn = after.map(|place| place.commit_lsn.to_string());
        let index = after.map(|place| place.index);
        let mut parameters = self.with(selection);
        let after: [&(dyn ToSql + Sync); 2] = [&lsn, &index];
        parameters.extend(after);
        self.query(&query, &parameters).await?.iter().map(event).collect()
    }

    /// The selected dead letters about which nobody has decided.
    pub(super) async fn undecided(&self, selection: &Selection) -> Result<Vec<Event>, TaskError> {
        let query = format!(
            "select {EVENT} from outbox_router.held \
             where {OF_PIPELINE} and {UNDECIDED} and {MATCHES} {IN_ORDER}"
        );
        self.query(&query, &self.with(selection)).await?.iter().map(event).collect()
    }

    /// The places of the events to show: by id whatever has become of them, by key the open dead
    /// letters.
    pub(super) async fn places(
        &self,
        selection: &Selection,
        by: Shown,
    ) -> Result<Vec<Place>, TaskError> {
        let which = match by {
            Shown::ById => "true".to_owned(),
            Shown::ByKey => format!("code is not null and {OPEN}"),
        };
        let query = format!(
            "select commit_lsn::text, event_index from outbox_router.held \
             where {OF_PIPELINE} and {which} and {MATCHES} {IN_ORDER}"
        );
        self.query(&query, &self.with(selection)).await?.iter().map(place).collect()
    }

    /// Everything of one event.
    pub(super) async fn whole(&self, place: Place) -> Result<Option<Whole>, TaskError> {
        let query = format!(
            "select {EVENT}, error, {}, {}, {}, messages, \
             (select count(*) from outbox_router.held later \
               where (later.pipeline, later.slot, later.key_hash) = \
                 (event.pipeline, event.slot, event.key_hash) and later.{OPEN} \
               and (later.commit_lsn, later.event_index) > (event.commit_lsn, event.event_index)) \
             from outbox_router.held event \
             where {OF_PIPELINE} and commit_lsn = $3::text::pg_lsn and event_index = $4",
            utc!("held_at"),
            utc!("decided_at"),
            utc!("closed_at")
        );
        let lsn = place.commit_lsn.to_string();
        let at: [&(dyn ToSql + Sync); 4] = [&self.pipeline, &self.slot, &lsn, &place.index];
        let rows = self.query(&query, &at).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(Whole {
            event: event(row)?,
            error: row.try_get(8)?,
            held_at: row.try_get(9)?,
            decided_at: row.try_get(10)?,
            closed_at: row.try_get(11)?,
            messages: row.try_get(12)?,
            behind: row.try_get(13)?,
            waits_for: self.waits_for(&at).await?,
            decisions: self.decisions(&at).await?,
        }))
    }

    async fn waits_for(&self, at: &[&(dyn ToSql + Sync)]) -> Result<Option<Place>, TaskError> {
        let query = format!(
            "select commit_lsn::text, event_index from outbox_router.held \
             where {OF_PIPELINE} and {UNDECIDED} \
             and (commit_lsn, event_index) < ($3::text::pg_lsn, $4) \
             and key_hash = (select key_hash from outbox_router.held where {OF_PIPELINE} \
               and commit_lsn = $3::text::pg_lsn and event_index = $4) \
             {IN_ORDER} limit 1"
        );
        self.query(&query, at).await?.first().map(place).transpose()
    }

    async fn decisions(&self, at: &[&(dyn ToSql + Sync)]) -> Result<Vec<Decided>, TaskError> {
        let query = format!(
            "select {}, action, decided_by, reason from outbox_router.decision \
             where {OF_PIPELINE} and commit_lsn = $3::text::pg_lsn \
             and (event_index = $4 or event_index is null) order by id",
            utc!("decided_at")
        );
        let decided = |row: &Row| {
            Ok(Decided {
                at: row.try_get(0)?,
                action: row.try_get(1)?,
                by: row.try_get(2)?,
                reason: row.try_get(3)?,
            })
        };
        self.query(&query, at).await?.iter().map(decided).collect()
    }

    /// `$1` to `$9`.
    pub(super) fn with<'p>(&'p self, selection: &'p Selection) -> Vec<&'p (dyn ToSql + Sync)> {
        let pipeline: [&(dyn ToSql + Sync); 2] = [&self.pipeline, &self.slot];
        pipeline.into_iter().chain(selection.parameters()).collect()
    }

    pub(super) async fn query(
        &self,
        query: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, TaskError> {
        self.client.query(query, parameters).await.map_err(failure)
    }
}

/// By what an event is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    ById,
    ByKey,
}

/// What PostgreSQL's error means here: without the tables there is nothing to decide about.
fn failure(error: tokio_postgres::Error) -> TaskError {
    let is_absent = connect::is_absent(&error);
    let failure = connect::failure(error);
    if is_absent {
        let what = "this database has no table of dead letters";
        let what = format!("{what}: {}", failure.message_with_causes());
        return Failure::new(Code::HeldTable, what).into();
    }
    failure.into()
}

pub(super) fn place(row: &Row) -> Result<Place, TaskError> {
    place_at(row, 0)
}

/// The place in this column and the next.
pub(super) fn place_at(row: &Row, column: usize) -> Result<Place, TaskError> {
    let lsn: &str = row.try_get(column)?;
    let commit_lsn = lsn.parse().map_err(|_| {
        Failure::new(Code::Protocol, format!("PostgreSQL writes a position as {lsn}"))
    })?;
    Ok(Place { commit_lsn, index: row.try_get(column + 1)? })
}

pub(super) fn event(row: &Row) -> Result<Event, TaskError> {
    Ok(Event {
        place: place(row)?,
        event_id: row.try_get(2)?,
        table: row.try_get(3)?,
        key: row.try_get(4)?,
        committed_at: row.try_get(5)?,
        code: row.try_get(6)?,
        state: row.try_get(7)?,
    })
}
