//! Runs in `outbox_router.republication`: who sent which rows again and why, and how far a run got.
//! One run of a pipeline at a time holds a lock.

mod lock;

pub(crate) use lock::{Holder, is_at_work, lock};
pub(crate) use relay::handover::{Completeness, PastRun};
use relay::{Failure, TopicName, handover::Position, witness::TopicUuid};
use serde_json::{Map, Value, json};
use tokio_postgres::Client;

use super::left_out::{self, LeftOut};
use crate::{
    held::{self, are_readable},
    postgres::{TextQuery, TextRow, quote_identifier, quote_literal, sql_failure, utc},
};

/// The table in errors.
const WHAT: &str = "outbox_router.republication";

/// The command of a back-fill, as the table has it.
pub(crate) const BACKFILL: &str = "backfill";

/// The condition of a run that did not come to its end.
const UNFINISHED: &str = "finished_at is null";

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

/// Lets the router's role read the table, so that it takes no slot whose back-fill is not complete.
/// Where this cannot be granted, `doctor` alone says it.
pub(crate) async fn let_router_read(client: &Client, router: &str) {
    let role = quote_identifier(router);
    let grant = format!(
        "grant usage on schema \"outbox_router\" to {role}; \
         grant select on \"outbox_router\".\"republication\" to {role}"
    );
    if let Err(error) = client.batch_execute(&grant).await {
        let failure = sql_failure(error);
        tracing::debug!(code = %failure.code, "the router may not read runs: {failure:#}");
    }
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
    mut client: &Client,
    subject: Subject<'_>,
) -> Result<Vec<PastRun>, Failure> {
    past(&mut client, subject, UNFINISHED).await
}

/// The last back-fill for this slot, where it is not complete. `None` also where no run was ever
/// noted, or this role may not read them.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn unfinished_backfill(
    sql: &mut impl TextQuery,
    pipeline: &str,
    slot: &str,
) -> Result<Option<PastRun>, Failure> {
    if !are_readable(sql, WHAT, ["republication"]).await? {
        return Ok(None);
    }
    let subject = Subject { pipeline, slot, command: BACKFILL, selection: "" };
    Ok(past(sql, subject, UNFINISHED).await?.into_iter().next())
}

/// The last run of this command.
///
/// # Errors
/// The role may not read it, or the connection breaks.
pub(crate) async fn last(
    mut client: &Client,
    subject: Subject<'_>,
) -> Result<Option<PastRun>, Failure> {
    Ok(past(&mut client, subject, "true").await?.into_iter().next())
}

/// At most twenty runs, the last one first.
async fn past(
    sql: &mut impl TextQuery,
    subject: Subject<'_>,
    condition: &str,
) -> Result<Vec<PastRun>, Failure> {
    let Subject { pipeline, slot, command, .. } = subject;
    let statement = format!(
        "select id, decided_by, {}, selection, settled, position, finished_at is not null, \
           coalesce(outcome like 'complete%', false) \
         from outbox_router.republication \
         where pipeline = {} and slot = {} and command = {} and {condition} \
         order by id desc limit 20",
        utc!("begun_at"),
        quote_literal(pipeline),
        quote_literal(slot),
        quote_literal(command)
    );
    sql.rows(WHAT, &statement).await?.into_iter().map(read_past).collect()
}

fn read_past(mut row: TextRow) -> Result<PastRun, Failure> {
    Ok(PastRun {
        id: row.parsed()?,
        by: row.text()?,
        begun_at: row.text()?,
        selection: row.text()?,
        settled: row.parsed()?,
        place: row.nullable()?.and_then(|text| serde_json::from_str(&text).ok()),
        completeness: match (row.boolean()?, row.boolean()?) {
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
