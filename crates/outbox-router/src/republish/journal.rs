//! Runs in `outbox_router.republication`: who sent which rows again and why, and how far a run got.
//! One run of a pipeline at a time holds a lock.

use relay::Failure;
use tokio_postgres::{Client, Row};

use super::checkpoints::Position;
use crate::postgres::{sql_failure, utc};

/// The table. Whoever needs it first makes it, and owns it.
const TABLE: &str = "\
create table if not exists \"outbox_router\".\"republication\" (
    \"id\"          bigint generated always as identity primary key,
    \"pipeline\"    text        not null,
    \"slot\"        text        not null,
    \"command\"     text        not null,
    \"selection\"   text        not null,
    \"decided_by\"  text        not null,
    \"reason\"      text,
    \"begun_at\"    timestamptz not null default now(),
    \"position\"    text,
    \"settled\"     bigint      not null default 0,
    \"finished_at\" timestamptz,
    \"outcome\"     text
)";

/// `$1` is the pipeline.
const LOCK: &str = "hashtextextended('outbox_router republication ' || $1, 0)";

/// What a run is known by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The configuration's `name`.
    pub(crate) pipeline: &'a str,
    pub(crate) slot: &'a str,
    pub(crate) command: &'a str,
    /// Which rows go where, in one form for the same rows.
    pub(crate) selection: &'a str,
}

/// A run that is not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unfinished {
    pub(crate) id: i64,
    pub(crate) by: String,
    pub(crate) begun_at: String,
    pub(crate) selection: String,
    pub(crate) settled: i64,
    /// `None`: nothing was settled.
    pub(crate) position: Option<Position>,
}

/// Who holds the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: i32,
    pub(crate) role: String,
    pub(crate) application: String,
}

/// Takes the lock for as long as the connection lasts.
///
/// # Errors
/// The server refuses it, or the connection breaks.
pub(crate) async fn lock(client: &Client, pipeline: &str) -> Result<Result<(), Holder>, Failure> {
    let query = format!("select pg_try_advisory_lock({LOCK})");
    let row = client.query_one(&query, &[&pipeline]).await.map_err(sql_failure)?;
    if row.try_get(0).map_err(sql_failure)? {
        return Ok(Ok(()));
    }
    let query = format!(
        "select a.pid, coalesce(a.usename, ''), coalesce(a.application_name, '') \
         from pg_locks l join pg_stat_activity a on a.pid = l.pid \
         where l.locktype = 'advisory' and l.granted and l.objsubid = 1 \
         and l.database = (select oid from pg_database where datname = current_database()) \
         and ((l.classid::bigint << 32) | l.objid::bigint) = {LOCK}"
    );
    let rows = client.query(&query, &[&pipeline]).await.map_err(sql_failure)?;
    let unknown = Holder { pid: 0, role: String::new(), application: String::new() };
    let Some(row) = rows.first() else { return Ok(Err(unknown)) };
    let read =
        || Ok(Holder { pid: row.try_get(0)?, role: row.try_get(1)?, application: row.try_get(2)? });
    Ok(Err(read().map_err(sql_failure)?))
}

/// Makes the table where it is missing.
///
/// # Errors
/// The role may not make it, or the connection breaks.
pub(crate) async fn make(client: &Client) -> Result<(), Failure> {
    if exists(client).await? {
        return Ok(());
    }
    // A role may be allowed to make tables in the schema, and no schema.
    let query = "select to_regnamespace('outbox_router') is not null";
    let row = client.query_one(query, &[]).await.map_err(sql_failure)?;
    let has_schema: bool = row.try_get(0).map_err(sql_failure)?;
    let schema = if has_schema { "" } else { "create schema if not exists \"outbox_router\"; " };
    client.batch_execute(&format!("{schema}{TABLE}")).await.map_err(sql_failure)
}

/// Whether the table is there.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn exists(client: &Client) -> Result<bool, Failure> {
    let query = "select to_regclass('outbox_router.republication') is not null";
    let row = client.query_one(query, &[]).await.map_err(sql_failure)?;
    row.try_get(0).map_err(sql_failure)
}

/// The unfinished runs of this command, the last one first.
///
/// # Errors
/// The role may not read them, or the connection breaks.
pub(crate) async fn unfinished(
    client: &Client,
    subject: Subject<'_>,
) -> Result<Vec<Unfinished>, Failure> {
    let query = format!(
        "select id, decided_by, {}, selection, settled, position \
         from outbox_router.republication \
         where pipeline = $1 and slot = $2 and command = $3 and finished_at is null \
         order by id desc limit 20",
        utc!("begun_at")
    );
    let Subject { pipeline, slot, command, .. } = subject;
    let rows = client.query(&query, &[&pipeline, &slot, &command]).await.map_err(sql_failure)?;
    rows.iter().map(read_unfinished).collect::<Result<_, _>>().map_err(sql_failure)
}

fn read_unfinished(row: &Row) -> Result<Unfinished, tokio_postgres::Error> {
    let position: Option<&str> = row.try_get(5)?;
    Ok(Unfinished {
        id: row.try_get(0)?,
        by: row.try_get(1)?,
        begun_at: row.try_get(2)?,
        selection: row.try_get(3)?,
        settled: row.try_get(4)?,
        position: position.and_then(|text| serde_json::from_str(text).ok()),
    })
}

/// A run that is being carried out.
pub(crate) struct Run<'a> {
    client: &'a Client,
    id: i64,
    /// Rows that an earlier process settled.
    before: i64,
}

impl<'a> Run<'a> {
    /// Notes that a run begins.
    ///
    /// # Errors
    /// The role may not write it, or the connection breaks.
    pub(crate) async fn begin(
        client: &'a Client,
        subject: Subject<'_>,
        by: &str,
        reason: Option<&str>,
    ) -> Result<Self, Failure> {
        let query = "insert into outbox_router.republication \
             (pipeline, slot, command, selection, decided_by, reason) \
             values ($1, $2, $3, $4, $5 || ' as ' || session_user, $6) returning id";
        let Subject { pipeline, slot, command, selection } = subject;
        let row = client
            .query_one(query, &[&pipeline, &slot, &command, &selection, &by, &reason])
            .await
            .map_err(sql_failure)?;
        Ok(Self { client, id: row.try_get(0).map_err(sql_failure)?, before: 0 })
    }

    /// Goes on with a run.
    pub(crate) const fn resume(client: &'a Client, run: &Unfinished) -> Self {
        Self { client, id: run.id, before: run.settled }
    }

    /// Its number.
    pub(crate) const fn id(&self) -> i64 {
        self.id
    }

    /// Notes that so many rows of this process are settled, up to this place.
    ///
    /// # Errors
    /// The role may not write it, or the connection breaks.
    pub(crate) async fn reached(&mut self, rows: u64, position: &Position) -> Result<(), Failure> {
        let settled = self.before.saturating_add_unsigned(rows);
        let position = (!position.is_empty()).then(|| serde_json::json!(position).to_string());
        let query = "update outbox_router.republication \
             set settled = $2, position = coalesce($3, position) where id = $1";
        self.client
            .execute(query, &[&self.id, &settled, &position])
            .await
            .map(drop)
            .map_err(sql_failure)
    }

    /// Notes how it ended. A run that did not complete can be resumed.
    ///
    /// # Errors
    /// The role may not write it, or the connection breaks.
    pub(crate) async fn end(
        &self,
        outcome: &str,
        completeness: Completeness,
    ) -> Result<(), Failure> {
        let query = "update outbox_router.republication set outcome = $2, \
             finished_at = case when $3 then now() end where id = $1";
        let is_complete = completeness == Completeness::Complete;
        self.client
            .execute(query, &[&self.id, &outcome, &is_complete])
            .await
            .map(drop)
            .map_err(sql_failure)
    }
}

/// Whether a run has settled all of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completeness {
    Complete,
    Partial,
}
