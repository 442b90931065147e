//! The slot: found to fit, or created, on a connection of its own with a `statement_timeout`.

use std::{io, pin::pin, time::Duration};

use relay::{Case, Code, Failure, Lsn, Name, TableName};
use tokio_postgres::{Client, error::SqlState};

use super::TaskError;
use crate::cli::{
    connect::{Access, failure, with_connection},
    sql,
    transaction_waits::{TransactionWaits, Waited},
};

/// How often it is looked at which transactions the slot waits for, and no more often than that.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// A slot that exists.
pub(super) struct ExistingSlot {
    /// Its `confirmed_flush_lsn`, or `no position`.
    pub(super) position: String,
    plugin: Option<String>,
    database: Option<String>,
    here: String,
    wal_status: Option<String>,
}

impl ExistingSlot {
    /// Its `confirmed_flush_lsn`, if it has one.
    pub(super) fn lsn(&self) -> Option<Lsn> {
        self.position.parse().ok()
    }
}

/// Says what a router does that streams meanwhile: tables that are added are none of its outboxes
/// before it is started with this configuration.
pub(super) async fn report_streaming(
    client: &Client,
    name: &str,
    added: &[&TableName],
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let query = "select active_pid from pg_replication_slots \
                 where slot_name = $1 and active_pid is not null";
    if added.is_empty() {
        return Ok(());
    }
    let Some(row) = client.query_opt(query, &[&name]).await? else { return Ok(()) };
    let (pid, added): (i32, Vec<String>) =
        (row.try_get(0)?, added.iter().map(ToString::to_string).collect());
    writeln!(
        out,
        "  warning: a router streams from slot {name} (pid {pid}). If it was started without {} in its \
         configuration, it passes over their rows, and they are lost, until it is started again with \
         this one: stop it before the first row is written",
        added.join(", ")
    )?;
    Ok(())
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
    /// Whether it can send nothing any more.
    pub(super) fn is_lost(&self) -> bool {
        self.wal_status.as_deref() == Some("lost")
    }

    /// Refuses a slot that the router could not read from.
    pub(super) fn check_fits(&self, name: &str) -> Result<(), Failure> {
        self.check_purpose(name)?;
        if self.is_lost() {
            let message = format!(
                "the slot {name} is lost: PostgreSQL removed WAL that it needed; rows committed \
                 after {} may be missing in Kafka",
                self.position
            );
            return Err(Failure::new(Code::SlotLost, message).naming(Name::Slot, name));
        }
        Ok(())
    }

    /// Refuses a slot that was made for something else.
    pub(super) fn check_purpose(&self, name: &str) -> Result<(), Failure> {
        let unsuitable = |what: String| {
            let message = format!("the slot {name} exists already, but it is {what}");
            Failure::of(Case::SlotUnsuitable, message).naming(Name::Slot, name)
        };
        match (self.plugin.as_deref(), self.database.as_deref()) {
            (None, _) => return Err(unsuitable("physical".to_owned())),
            (Some("pgoutput"), Some(database)) if database == self.here => {}
            (Some("pgoutput"), database) => {
                let of = database.unwrap_or_default();
                return Err(unsuitable(format!("of the database {of}, not {}", self.here)));
            }
            (Some(plugin), _) => {
                return Err(unsuitable(format!("of the plug-in {plugin}, not pgoutput")));
            }
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
    // Somebody has to look before the wait is over.
    let look_every = LOOK_EVERY.min(wait / 2).max(LOOK_AFTER);
    let work = with_connection(access, "setup", async |creator| {
        let limit = format!("set lock_timeout = 0; set statement_timeout = {}", wait.as_millis());
        creator.batch_execute(&limit).await?;
        let pid: i32 = creator.query_one("select pg_backend_pid()", &[]).await?.try_get(0)?;
        let watched = with_connection(access, "setup", async |watcher| {
            let statement = sql::create_slot(name, version);
            let mut creating = pin!(creator.query_one(&statement, &[]));
            let mut waits = TransactionWaits::of("the slot");
            loop {
                tokio::select! {
                    biased;
                    made = &mut creating => break Ok((made, waits)),
                    () = tokio::time::sleep(look_every) => {
                        waits.report(watcher, Waited::By(pid), out).await?;
                    }
                }
            }
        });
        let (made, waits) = Box::pin(watched).await?;
        let row = made.map_err(|error| match error.code() {
            Some(&SqlState::QUERY_CANCELED) => waits.failure(name, wait),
            Some(_) | None => failure(error),
        })?;
        Ok(row.try_get::<_, String>(0)?)
    });
    let position = Box::pin(work).await?;
    let failover = if version >= sql::FAILOVER_SINCE { "; standbys can keep it too" } else { "" };
    writeln!(out, "slot {name}: created at {position}{failover}")?;
    Ok(())
}
