//! Skips in `outbox_router.decision`. The router compares them with the row at which it stands.

use relay::{Code, Failure, Lsn, TableName};
use tokio_postgres::{Client, types::ToSql};

use crate::{
    cli::{TaskError, connect, dead_letters::DecidedBy, decision_args::Decider},
    held,
    monitor::server,
    postgres::{quote_literal, sql::DURABLE, utc},
};

/// `$1` to `$4`; a decision that names another table (`$5`) is about another row.
const OF_ROW: &str = "action = 'skip' and pipeline = $1 and slot = $2 \
    and commit_lsn = $3::text::pg_lsn and event_id is not distinct from $4 \
    and coalesce(to_jsonb(d) ->> 'table_name', $5) = $5";

/// When, who and why.
const DECIDED: &str = concat!(utc!("decided_at"), ", decided_by, reason");

/// The row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// The configuration's `name`.
    pub(super) pipeline: &'a str,
    pub(super) slot: &'a str,
    pub(super) commit_lsn: Lsn,
    pub(super) event_id: Option<&'a str>,
    pub(super) table: &'a TableName,
}

/// A decision that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) at: String,
    pub(super) by: String,
    pub(super) reason: Option<String>,
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Written {
    /// It is in the table.
    Now,
    /// The same was decided before.
    Before(Decided),
}

/// The first decision to skip this row.
pub(super) async fn read(client: &Client, place: Place<'_>) -> Result<Option<Decided>, TaskError> {
    let query = format!(
        "select {DECIDED} from outbox_router.decision d where {OF_ROW} order by id limit 1"
    );
    let lsn = place.commit_lsn.to_string();
    let table = place.table.to_string();
    let mut parameters = with(&place, &lsn);
    parameters.push(&table);
    let rows = client.query(&query, &parameters).await.map_err(failure)?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Decided { at: row.try_get(0)?, by: row.try_get(1)?, reason: row.try_get(2)? }))
}

/// Whether a decision says whose row it is about, of which table and of which cluster: the table of
/// an earlier version lacks the columns until `setup --dead-letters` adds them.
pub(in crate::cli) async fn names_rows(client: &Client) -> Result<bool, TaskError> {
    let query = "select 2 = (select count(*) from pg_attribute \
         where attrelid = to_regclass('outbox_router.decision') \
         and attname in ('table_name', 'system_id') and not attisdropped)";
    Ok(client.query_one(query, &[]).await?.try_get(0)?)
}

/// The latest decision to skip a row with this id, of this table or of one that it does not name,
/// and the transaction that it names; `None` also where nobody has made the table.
pub(in crate::cli) async fn of_event(
    client: &Client,
    (pipeline, slot): (&str, &str),
    event_id: &str,
    table: Option<&str>,
) -> Result<Option<(String, DecidedBy)>, TaskError> {
    let query = format!(
        "select commit_lsn::text, {DECIDED} from outbox_router.decision d \
         where action = 'skip' and pipeline = $1 and slot = $2 and event_id = $3 \
         and ($4::text is null or coalesce(to_jsonb(d) ->> 'table_name', $4) = $4) \
         order by id desc limit 1"
    );
    let row = match client.query_opt(&query, &[&pipeline, &slot, &event_id, &table]).await {
        Ok(row) => row,
        Err(error) if connect::is_absent(&error) => return Ok(None),
        Err(error) => return Err(failure(error)),
    };
    let Some(row) = row else { return Ok(None) };
    let by = DecidedBy { at: row.try_get(1)?, by: row.try_get(2)?, reason: row.try_get(3)? };
    Ok(Some((row.try_get(0)?, by)))
}

/// Decides to skip this row, unless somebody has. Two people who decide at once wait for each
/// other, since no constraint of the table would keep them apart.
pub(super) async fn write(
    client: &Client,
    place: Place<'_>,
    decider: &Decider<'_>,
) -> Result<Written, TaskError> {
    // A role that may not ask notes no cluster, and its skip counts for no later gap.
    let here = server::identity(&mut &*client).await.map(|here| here.system_id).ok();
    // The router may skip the row, and confirm that, as soon as it sees the decision.
    client.batch_execute(DURABLE).await?;
    // A rollback needs no statement: on an error the command ends, and with it the session.
    client.batch_execute("begin isolation level read committed read write").await?;
    let lsn = place.commit_lsn.to_string();
    let lock = format!("outbox_router skip {} {} {lsn}", place.pipeline, place.slot);
    client.query("select pg_advisory_xact_lock(hashtextextended($1, 0))", &[&lock]).await?;
    if let Some(decided) = read(client, place).await? {
        return Ok(Written::Before(decided));
    }
    let names_rows = names_rows(client).await?;
    let mut parameters = with(&place, &lsn);
    let decided: [&(dyn ToSql + Sync); 2] = [&decider.reason, &decider.by];
    parameters.extend(decided);
    let (columns, values) = if names_rows {
        let table = quote_literal(&place.table.to_string());
        let here = here.as_deref().map_or_else(|| "null".to_owned(), quote_literal);
        (", table_name, system_id", format!(", {table}, {here}"))
    } else {
        ("", String::new())
    };
    let record = format!(
        "insert into outbox_router.decision \
         (pipeline, slot, commit_lsn, event_id, action, reason, decided_by{columns}) \
         values ($1, $2, $3::text::pg_lsn, $4, 'skip', $5, $6::text || ' as ' || session_user{values})"
    );
    client.execute(&record, &parameters).await.map_err(failure)?;
    held::count_note_if_allowed(client, place.pipeline).await?;
    client.batch_execute("commit").await?;
    Ok(Written::Now)
}

fn with<'p>(place: &'p Place<'_>, lsn: &'p String) -> Vec<&'p (dyn ToSql + Sync)> {
    vec![&place.pipeline, &place.slot, lsn, &place.event_id]
}

/// What PostgreSQL's error means here: without the table a skip cannot be written.
fn failure(error: tokio_postgres::Error) -> TaskError {
    let is_absent = connect::is_absent(&error);
    let failure = connect::failure(error);
    if is_absent {
        let what = "this database has no table outbox_router.decision";
        let what = format!("{what}: {}", failure.message_with_causes());
        return Failure::new(Code::HeldTable, what).into();
    }
    failure.into()
}
