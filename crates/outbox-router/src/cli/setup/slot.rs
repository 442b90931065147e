//! The slot: found to fit, or created. Creating a slot waits until every transaction that is open
//! in the cluster has ended, without a limit and without a message. So it is done on a connection
//! of its own with a `statement_timeout`, while another connection reports which transactions it
//! waits for.

use crate::wording;
use std::{collections::BTreeSet, io, pin::pin, time::Duration};

use relay::{Case, Code, Failure, Name};
use tokio_postgres::{Client, Row, error::SqlState};

use super::TaskError;
use crate::cli::{
    connect::{Access, failure, with_connection},
    sql,
};

/// When the slot was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotOrigin {
    /// This command has created it.
    Now,
    /// It existed already: only a witness shows what happened to it before.
    Before,
}

/// A slot that exists.
pub(super) struct ExistingSlot {
    /// Its `confirmed_flush_lsn`, or `no position`.
    pub(super) position: String,
    plugin: Option<String>,
    database: Option<String>,
    here: String,
    wal_status: Option<String>,
}

/// Reads a slot; `None` where it does not exist.
pub(super) async fn find(client: &Client, name: &str) -> Result<Option<ExistingSlot>, TaskError> {
    let query = "select coalesce(confirmed_flush_lsn::text, 'no position'), plugin::text, \
                 database::text, current_database()::text, wal_status \
                 from pg_replication_slots where slot_name = $1";
    let Some(row) = client.query_opt(query, &[&name]).await? else { return Ok(None) };
    Ok(Some(ExistingSlot {
        position: row.try_get(0)?,
        plugin: row.try_get(1)?,
        database: row.try_get(2)?,
        here: row.try_get(3)?,
        wal_status: row.try_get(4)?,
    }))
}

impl ExistingSlot {
    /// Refuses a slot that the router could not read from.
    pub(super) fn check_fits(&self, name: &str) -> Result<(), Failure> {
        let unsuitable = |what: String| {
            let message = format!("the slot {name} exists already, but {what}");
            Failure::of(Case::SlotUnsuitable, message).naming(Name::Slot, name)
        };
        match (self.plugin.as_deref(), self.database.as_deref()) {
            (None, _) => return Err(unsuitable("it is physical".to_owned())),
            (Some("pgoutput"), Some(database)) if database == self.here => {}
            (Some("pgoutput"), database) => {
                let of = database.unwrap_or_default();
                return Err(unsuitable(format!("of the database {of}, not {}", self.here)));
            }
            (Some(plugin), _) => {
                return Err(unsuitable(format!("of the plug-in {plugin}, not pgoutput")));
            }
        }
        if self.wal_status.as_deref() == Some("lost") {
            let message = format!(
                "the slot {name} is lost: PostgreSQL removed WAL that it needed; rows committed \
                 after {} may be missing in Kafka",
                self.position
            );
            return Err(Failure::new(Code::SlotLost, message).naming(Name::Slot, name));
        }
        Ok(())
    }
}

/// Creates the slot, and meanwhile reports which transactions it waits for.
pub(super) async fn create(
    access: Access<'_>,
    name: &str,
    version: i32,
    wait: Duration,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let work = with_connection(access, "setup", async |creator| {
        let limit = format!("set lock_timeout = 0; set statement_timeout = {}", wait.as_millis());
        creator.batch_execute(&limit).await?;
        let pid: i32 = creator.query_one("select pg_backend_pid()", &[]).await?.try_get(0)?;
        let watched = with_connection(access, "setup", async |watcher| {
            let statement = sql::create_slot(name, version);
            let mut creating = pin!(creator.query_one(&statement, &[]));
            let mut reported = BTreeSet::new();
            loop {
                tokio::select! {
                    biased;
                    made = &mut creating => break Ok((made, reported)),
                    () = tokio::time::sleep(Duration::from_secs(1)) => {
                        report_blockers(watcher, pid, &mut reported, out).await?;
                    }
                }
            }
        });
        let (made, reported) = Box::pin(watched).await?;
        let row = made.map_err(|error| not_made(error, name, wait, &reported))?;
        Ok(row.try_get::<_, String>(0)?)
    });
    let position = Box::pin(work).await?;
    let failover = if version >= sql::FAILOVER_SINCE { "; standbys can keep it too" } else { "" };
    writeln!(out, "slot {name}: created at {position}{failover}")?;
    Ok(())
}

/// Transactions that have been open for more than a second, those that the creating backend waits
/// for at this moment, and prepared transactions.
const BLOCKERS: &str = "\
    select a.pid, nullif(a.application_name, ''), a.datname::text, \
      extract(epoch from clock_timestamp() - a.xact_start)::int8, \
      extract(epoch from clock_timestamp() - a.query_start)::int8, null::text \
    from pg_stat_activity a \
    where a.pid <> $1 and (a.pid = any (pg_blocking_pids($1)) \
      or (a.backend_xid is not null and a.xact_start < clock_timestamp() - interval '1 second')) \
    union all \
    select null, null, p.database::text, extract(epoch from clock_timestamp() - p.prepared)::int8, \
      null, p.gid from pg_prepared_xacts p \
    order by 4 desc nulls last";

async fn report_blockers(
    watcher: &Client,
    pid: i32,
    reported: &mut BTreeSet<String>,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    for row in watcher.query(BLOCKERS, &[&pid]).await? {
        let (who, remedy) = blocker(&row)?;
        if !reported.contains(&remedy) {
            if reported.is_empty() {
                writeln!(out, "the slot waits for transactions that are open:")?;
            }
            writeln!(out, "  {who}")?;
            out.flush()?;
            reported.insert(remedy);
        }
    }
    Ok(())
}

/// Who holds the transaction open, and the statement that ends it.
fn blocker(row: &Row) -> Result<(String, String), tokio_postgres::Error> {
    let age = |seconds: Option<i64>| {
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.map_or_else(
            || "an unknown time".to_owned(),
            |seconds| wording::roughly(Duration::from_secs(seconds)),
        )
    };
    let database: Option<String> = row.try_get(2)?;
    let database = database.unwrap_or_else(|| "unknown".to_owned());
    let open = age(row.try_get(3)?);
    if let Some(gid) = row.try_get::<_, Option<String>>(5)? {
        let who = format!("prepared transaction {gid}, database {database}, since {open}");
        return Ok((who, format!("rollback prepared {}", sql::literal(&gid))));
    }
    let pid: Option<i32> = row.try_get(0)?;
    let pid = pid.unwrap_or_default();
    let application: Option<String> = row.try_get(1)?;
    let application = application.unwrap_or_else(|| "no application name".to_owned());
    let query = age(row.try_get(4)?);
    let who = format!(
        "pid {pid}, {application}, database {database}, open for {open}, last statement {query} ago"
    );
    Ok((who, format!("select pg_terminate_backend({pid})")))
}

/// The slot was not created. PostgreSQL removes a slot whose creation did not complete.
fn not_made(
    error: tokio_postgres::Error,
    name: &str,
    wait: Duration,
    remedies: &BTreeSet<String>,
) -> Failure {
    if error.code() != Some(&SqlState::QUERY_CANCELED) {
        return failure(error);
    }
    let message = format!(
        "the slot {name} was not created within {}: transactions that were open did not end",
        wording::roughly(wait)
    );
    let remedies: Vec<&str> = remedies.iter().map(String::as_str).collect();
    Failure::of(Case::SlotWaits, message).naming(Name::EndTransactions, remedies.join("; "))
}
