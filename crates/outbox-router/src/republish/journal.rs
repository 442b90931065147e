//! Runs in `outbox_router.republication`: who sent which rows again and why, and how far a run got.
//! One run of a pipeline at a time holds a lock.

use std::{fmt, time::Duration};

pub(crate) use relay::handover::{Completeness, PastRun};
use relay::{Failure, TopicName, handover::Position, witness::TopicUuid};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, Row};

use super::left_out::{self, LeftOut};
use crate::{
    held,
    postgres::{sql_failure, utc},
};

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

/// Who holds the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: i32,
    pub(crate) role: String,
    pub(crate) application: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, role, application } = self;
        write!(
            f,
            "a command of this pipeline is at work in process {pid} ({application}, role {role}): \
             wait for it, or end it"
        )
    }
}

/// How long a session may take to end whose process has just ended.
const ENDS_WITHIN: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Takes the lock for as long as the connection lasts.
///
/// # Errors
/// The server refuses it, or the connection breaks.
pub(crate) async fn lock(client: &Client, pipeline: &str) -> Result<Result<(), Holder>, Failure> {
    let query = format!("select pg_try_advisory_lock({LOCK})");
    let until = Instant::now() + ENDS_WITHIN;
    loop {
        let row = client.query_one(&query, &[&pipeline]).await.map_err(sql_failure)?;
        if row.try_get(0).map_err(sql_failure)? {
            return Ok(Ok(()));
        }
        if Instant::now() >= until {
            break;
        }
        sleep(POLL_INTERVAL).await;
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

/// What a role lacks to make the table, to read it and to write to it.
const PRIVILEGES: &str = "\
    select quote_ident(current_user), quote_ident(current_database()), n.oid is not null, \
      c.oid is not null, has_database_privilege(current_database(), 'create'), \
      coalesce(has_schema_privilege(n.oid, 'usage'), true), \
      coalesce(has_schema_privilege(n.oid, 'create'), true), \
      (select coalesce(string_agg(p.name, ', ' order by p.at), '') \
       from unnest(array['select', 'insert', 'update']) with ordinality p (name, at) \
       where not coalesce(has_table_privilege(c.oid, p.name), true)) \
    from (values (1)) one left join pg_namespace n on n.nspname = 'outbox_router' \
      left join pg_class c on c.relnamespace = n.oid and c.relname = 'republication'";

/// The statements that let the present role note its runs; none where it may already.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn missing_grants(client: &Client) -> Result<Vec<String>, Failure> {
    let row = client.query_one(PRIVILEGES, &[]).await.map_err(sql_failure)?;
    let read = || {
        let (role, database): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let (has_schema, has_table): (bool, bool) = (row.try_get(2)?, row.try_get(3)?);
        let (may_make_schema, may_use): (bool, bool) = (row.try_get(4)?, row.try_get(5)?);
        let (may_make_table, lacks): (bool, String) = (row.try_get(6)?, row.try_get(7)?);
        let mut grants = Vec::new();
        if !has_schema && !may_make_schema {
            grants.push(format!("grant create on database {database} to {role}"));
        }
        if !may_use {
            grants.push(format!("grant usage on schema outbox_router to {role}"));
        }
        if has_schema && !has_table && !may_make_table {
            grants.push(format!("grant create on schema outbox_router to {role}"));
        }
        if !lacks.is_empty() {
            grants.push(format!("grant {lacks} on outbox_router.republication to {role}"));
        }
        Ok(grants)
    };
    read().map_err(sql_failure)
}

/// Whether the table is there.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn exists(client: &Client) -> Result<bool, Failure> {
    held::exists(client, "republication").await.map_err(sql_failure)
}

/// The unfinished runs of this command, the last one first.
///
/// # Errors
/// The role may not read them, or the connection breaks.
pub(crate) async fn unfinished(
    client: &Client,
    subject: Subject<'_>,
) -> Result<Vec<PastRun>, Failure> {
    past(client, subject, "finished_at is null").await
}

/// The last run of this command.
///
/// # Errors
/// The role may not read it, or the connection breaks.
pub(crate) async fn last(
    client: &Client,
    subject: Subject<'_>,
) -> Result<Option<PastRun>, Failure> {
    Ok(past(client, subject, "true").await?.into_iter().next())
}

/// At most twenty runs, the last one first.
async fn past(
    client: &Client,
    subject: Subject<'_>,
    condition: &str,
) -> Result<Vec<PastRun>, Failure> {
    let query = format!(
        "select id, decided_by, {}, selection, settled, position, finished_at is not null, \
           coalesce(outcome like 'complete%', false) \
         from outbox_router.republication \
         where pipeline = $1 and slot = $2 and command = $3 and {condition} \
         order by id desc limit 20",
        utc!("begun_at")
    );
    let Subject { pipeline, slot, command, .. } = subject;
    let rows = client.query(&query, &[&pipeline, &slot, &command]).await.map_err(sql_failure)?;
    rows.iter().map(read_past).collect::<Result<_, _>>().map_err(sql_failure)
}

fn read_past(row: &Row) -> Result<PastRun, tokio_postgres::Error> {
    let place: Option<&str> = row.try_get(5)?;
    let (is_finished, is_complete): (bool, bool) = (row.try_get(6)?, row.try_get(7)?);
    Ok(PastRun {
        id: row.try_get(0)?,
        by: row.try_get(1)?,
        begun_at: row.try_get(2)?,
        selection: row.try_get(3)?,
        settled: row.try_get(4)?,
        place: place.and_then(|text| serde_json::from_str(text).ok()),
        completeness: match (is_finished, is_complete) {
            (true, true) => Completeness::Complete,
            (true, false) => Completeness::GivenUp,
            (false, _) => Completeness::Partial,
        },
    })
}

/// A run that is being carried out.
#[derive(Clone)]
pub(crate) struct Run<'a> {
    client: &'a Client,
    id: i64,
    /// Rows that were settled before.
    before: i64,
    /// What is written beside the place in the order, as its member `order`.
    frame: Option<Map<String, Value>>,
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
        Ok(Self { client, id: row.try_get(0).map_err(sql_failure)?, before: 0, frame: None })
    }

    /// Goes on with a run.
    pub(crate) const fn resume(client: &'a Client, run: &PastRun) -> Self {
        Self { client, id: run.id, before: run.settled, frame: None }
    }

    /// The same run, of whose rows `before` are settled, with more to write beside each place in
    /// the order.
    pub(crate) fn in_frame(&self, before: i64, frame: Map<String, Value>) -> Self {
        Self { client: self.client, id: self.id, before, frame: Some(frame) }
    }

    /// Adds a topic to what is written beside each place.
    pub(crate) fn note_topic(&mut self, name: &TopicName, uuid: &TopicUuid) {
        let topics = self.frame.as_mut().and_then(|frame| frame.get_mut("topics"));
        if let Some(topics) = topics.and_then(Value::as_object_mut) {
            topics.entry(name.as_str()).or_insert_with(|| json!(uuid));
        }
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
        let position = self.place(position).map(|place| place.to_string());
        let query = "update outbox_router.republication \
             set settled = $2, position = coalesce($3, position) where id = $1";
        self.client
            .execute(query, &[&self.id, &settled, &position])
            .await
            .map(drop)
            .map_err(sql_failure)
    }

    /// Notes how far it is, in the form of a [frame](Self::in_frame).
    ///
    /// # Errors
    /// The role may not write it, or the connection breaks.
    pub(crate) async fn note(&self, place: &Value) -> Result<(), Failure> {
        let query = "update outbox_router.republication set position = $2 where id = $1";
        let noted = self.client.execute(query, &[&self.id, &place.to_string()]).await;
        noted.map(drop).map_err(sql_failure)
    }

    /// Notes rows of a table that are left out.
    ///
    /// # Errors
    /// The role may not write it, or the connection breaks.
    pub(crate) async fn note_left_out(&self, table: u32, rows: &[LeftOut]) -> Result<(), Failure> {
        if rows.is_empty() {
            Ok(())
        } else {
            left_out::note(self.client, (self.id, table), rows).await
        }
    }

    fn place(&self, position: &Position) -> Option<Value> {
        let order = (!position.is_empty()).then(|| json!(position));
        let Some(mut frame) = self.frame.clone() else { return order };
        frame.extend(order.map(|order| ("order".to_owned(), order)));
        Some(Value::Object(frame))
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
        let is_finished = completeness != Completeness::Partial;
        self.client
            .execute(query, &[&self.id, &outcome, &is_finished])
            .await
            .map(drop)
            .map_err(sql_failure)
    }
}
