//! Which workers hold shards of a table, and whether it is handed to the stream; for people: this
//! decides nothing.

use relay::{Case, Failure, Name, TableName};
use tokio_postgres::{Client, SimpleQueryRow};
use uuid::Uuid;

use super::{
    connection::run,
    failure::of_lease,
    kept_from_stream::named_oids,
    kept_from_workers::kept_from_workers,
    literals::literal,
    settings::StreamNames,
    setup::{has_held, is_of_other},
    switch::{self, Closed},
    transaction::{Access, BEGINS, COMMIT, Ways, begin},
};
use crate::{
    held::are_readable,
    postgres::{quote_table, sql_failure},
};

/// A worker that holds shards of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Holder {
    /// Which one: another at each start of a process.
    pub worker: String,
    /// `name` of its configuration; empty where it is not known.
    pub name: String,
    /// How many shards it holds.
    pub shards: u32,
    /// For how many seconds its lease lasts; less than zero: it ended so long ago.
    pub lasts_seconds: f64,
}

/// Who polls a table.
#[derive(Debug, Clone, Default)]
pub struct Shares {
    /// The workers that hold shards, the one with the most first.
    pub holders: Vec<Holder>,
    /// Why nobody may: it is streamed, or being handed to the stream.
    pub handed: Option<Failure>,
}

/// Reads who polls a table.
///
/// # Errors
/// The tables of leases are missing, or may not be read (P042); the connection breaks.
pub(super) async fn shares(
    mut client: &Client,
    table: &TableName,
    (name, stream): (&str, &StreamNames),
) -> Result<Shares, Failure> {
    let answers = run(client, &statement(table)).await.map_err(of_lease)?;
    let rows = answers.get(BEGINS).into_iter().flat_map(|answer| &answer.rows);
    let holder = |row: &tokio_postgres::SimpleQueryRow| {
        let text = |place| row.try_get(place).map_err(sql_failure);
        Ok(Holder {
            worker: text(0)?.unwrap_or_default().to_owned(),
            name: text(1)?.unwrap_or_default().to_owned(),
            shards: text(2)?.and_then(|shards| shards.parse().ok()).unwrap_or(0),
            lasts_seconds: text(3)?.and_then(|seconds| seconds.parse().ok()).unwrap_or(0.0),
        })
    };
    let holders = rows.map(holder).collect::<Result<Vec<_>, Failure>>()?;
    let state = answers.get(BEGINS + 1).and_then(|answer| answer.rows.first());
    let handed = match state.map(|row| unpolled(row, table)) {
        // A worker that has the table goes on.
        None if holders.iter().any(Holder::is_live) => {
            let live = || holders.iter().filter(|holder| holder.is_live());
            let other = live().find(|holder| !["", name].contains(&holder.name.as_str()));
            let other = other.filter(|_| !live().any(|holder| holder.name == name));
            other.map(|other| polled_by_other(table, &other.name))
        }
        None => {
            let tables = std::slice::from_ref(table);
            let kept = kept_from_workers(&mut client, stream, tables).await?;
            kept.into_iter().map(|(_, failure)| failure).next()
        }
        Some(failure) => Some(failure),
    };
    Ok(Shares { holders, handed })
}

/// Why no row of a table may be removed by the marks of this pipeline: another one has polled it,
/// by marks of its own. Without a table of workers, no pipeline has.
///
/// # Errors
/// The connection breaks, or this role may not read that table (P042).
pub(super) async fn polled_by_others(
    client: &Client,
    (table, oid): (&TableName, u32),
    own: &str,
) -> Result<Option<Failure>, Failure> {
    let there = "select to_regclass('outbox_router.worker') is null";
    let there = run(client, there).await.map_err(of_lease)?;
    let is_missing = there.first().and_then(|answer| answer.rows.first()?.try_get(0).ok()?);
    if is_missing == Some("t") {
        return Ok(None);
    }
    let is_other = is_of_other("name", own);
    let others = format!(
        "select string_agg(distinct name, ', ') from outbox_router.worker \
         where relation = {oid} and {is_other} and {}",
        has_held()
    );
    let answers = run(client, &others).await.map_err(of_lease)?;
    let others = answers.first().and_then(|answer| answer.rows.first()?.try_get(0).ok()?);
    Ok(others.map(|others| {
        let what = format!(
            "table {table} was polled by workers of {others}, too: which rows they have not \
             delivered is not known here, so all rows of it stay"
        );
        let forget = format!(
            "delete from outbox_router.worker where relation = {}::regclass and {is_other}",
            literal(&quote_table(table))
        );
        Failure::of(Case::RetentionPolled, what).naming(Name::Statements, forget)
    }))
}

/// Why a worker is given no keys of a table.
pub(super) fn polled_by_other(table: &TableName, pipeline: &str) -> Failure {
    let what = format!(
        "table {table}, or one that has its rows as a partition or parent, is polled by workers of \
         {pipeline}: its keys are theirs alone"
    );
    Failure::of(Case::PolledByOther, what).naming(Name::Table, table)
}

/// Why nobody may poll tables of which a switch says something. Where the tables of the router are
/// missing, or this role may not read them, nothing is found.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn handed(
    mut client: &Client,
    tables: &[TableName],
) -> Result<Vec<Failure>, Failure> {
    if tables.is_empty() || !are_readable(&mut client, "outbox_router.switch", ["switch"]).await? {
        return Ok(Vec::new());
    }
    // Not `to_regclass`: it fails where this role may not use the schema of one of the tables.
    let relation = |table| format!("({})", named_oids(std::iter::once(table)));
    let states = tables.iter().map(|table| switch::state_sql(relation(table)));
    let states: Vec<String> = states.collect();
    let sql = format!("{}{}{COMMIT}", begin(Access::ReadOnly, Ways::Any), states.join("; "));
    let answers = run(client, &sql).await.map_err(sql_failure)?;
    let rows = answers.iter().skip(BEGINS).map(|answer| answer.rows.first());
    let of_tables = tables.iter().zip(rows);
    Ok(of_tables.filter_map(|(table, row)| Some(unpolled(row?, table))).collect())
}

/// What the row of a table that is switched says to a person.
fn unpolled(row: &SimpleQueryRow, table: &TableName) -> Failure {
    match switch::closed(row, table, Uuid::nil()) {
        Err(failure) => failure,
        Ok(Closed::ByThisWorker | Closed::ByAnother) => {
            let what = format!("table {table} is being handed to the stream, and nobody polls it");
            Failure::of(Case::Switching, what).naming(Name::Table, table)
        }
    }
}

fn statement(table: &TableName) -> String {
    let relation = format!("to_regclass({})", literal(&quote_table(table)));
    format!(
        "{}select l.holder, coalesce(max(w.name), ''), count(*), \
         extract(epoch from max(l.expires_at) - clock_timestamp()) \
         from outbox_router.lease l \
         left join outbox_router.worker w on w.relation = l.relation and w.holder = l.holder \
         where l.relation = {relation} and l.holder is not null \
         group by l.holder order by count(*) desc, l.holder; {}{COMMIT}",
        begin(Access::ReadOnly, Ways::Any),
        switch::state_sql(&relation),
    )
}
