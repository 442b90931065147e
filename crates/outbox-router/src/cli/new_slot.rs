//! A new slot whose snapshot a command reads rows from, while it holds the slot.

use std::{io, pin::pin, time::Duration};

use relay::{Case, Code, Failure};
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, error::SqlState};

use super::{
    TaskError,
    connect::{Access, denied, with_connection},
    republication::BEGIN,
    sql,
    transaction_waits::{TransactionWaits, Waited},
};
use crate::{
    postgres::{Failover, quote_literal},
    shell::{SlotCreator, SlotHolder, SnapshotSlot, Source},
};

/// How long a process that was killed may take to free the slot.
const FREED_WITHIN: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Ends what still makes the slot for a run of this command that was killed. While it waits for
/// open transactions, a walsender does not notice that its client is gone. The caller holds the
/// lock of the pipeline's runs, so no other run is alive. Returns whether there was one.
///
/// # Errors
/// The server does not end it.
pub(super) async fn end_dead_run(client: &Client, source: &Source) -> Result<bool, TaskError> {
    let until = Instant::now() + FREED_WITHIN;
    let (slot, application) = (&source.slot, &source.endpoint.application_name);
    let mut was_there = false;
    while !client.query(END_HOLDER, &[slot, application]).await?.is_empty() {
        was_there = true;
        if Instant::now() >= until {
            let what = format!("a run of {application} that was killed still makes slot {slot}");
            return Err(Failure::of(Case::SlotNeeded, what).into());
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(was_there)
}

const END_HOLDER: &str = "select pg_terminate_backend(s.active_pid) \
    from pg_replication_slots s join pg_stat_activity a on a.pid = s.active_pid \
    where s.slot_name = $1 and a.application_name = $2";

/// Drops the slot. A process that was killed frees it at once, or waits for transactions in the
/// middle of creating it: then its walsender is ended, since the caller holds the lock of the
/// pipeline's runs, and no other run is alive. Returns whether there was a slot.
///
/// # Errors
/// Another process uses the slot, or the server refuses.
pub(super) async fn drop_former(client: &Client, source: &Source) -> Result<bool, TaskError> {
    let until = Instant::now() + FREED_WITHIN;
    let (slot, application) = (&source.slot, &source.endpoint.application_name);
    loop {
        match client.query_one("select pg_drop_replication_slot($1)", &[slot]).await {
            Ok(_) => return Ok(true),
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_OBJECT) => return Ok(false),
            Err(error)
                if error.code() == Some(&SqlState::OBJECT_IN_USE) && Instant::now() < until =>
            {
                client.query(END_HOLDER, &[slot, application]).await?;
                sleep(POLL_INTERVAL).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until every transaction has ended that writes now, prepared ones included. A slot that is
/// created then has few to wait for: without a slot nothing keeps what is written meanwhile.
///
/// # Errors
/// They did not end in time.
pub(super) async fn wait_for_open(
    client: &Client,
    slot: &str,
    wait: Duration,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    // A snapshot lists those that began before the last one that has ended.
    client.batch_execute("select pg_current_xact_id()").await?;
    let list = "select array(select x::text from pg_snapshot_xip(pg_current_snapshot()) x \
                where x = any ($1::text[]::xid8[]) or $1 is null)";
    let mut open: Option<Vec<String>> = None;
    let mut waits = TransactionWaits::of("the slot");
    let until = Instant::now() + wait;
    loop {
        let left: Vec<String> = client.query_one(list, &[&open]).await?.try_get(0)?;
        if left.is_empty() {
            return Ok(());
        }
        waits.report(client, Waited::These(&left), out).await?;
        if Instant::now() >= until {
            return Err(waits.failure(slot, wait).into());
        }
        open = Some(left);
        sleep(POLL_INTERVAL).await;
    }
}

/// Connects. To be done before a former slot is dropped: what the role may not do, or a server that
/// has no free connection, then changes nothing.
///
/// # Errors
/// The server refuses the connection.
pub(super) async fn connect(source: &Source) -> Result<SlotCreator, Failure> {
    source.slot_creator().await.map_err(refused)
}

/// Creates the slot, reports meanwhile which transactions it waits for, and gives up after `wait`.
///
/// # Errors
/// The server refuses the slot, or transactions did not end.
pub(super) async fn create(
    (access, command): (Access<'_>, &str),
    creator: SlotCreator,
    version: i32,
    wait: Duration,
    out: &mut (dyn io::Write + Send),
) -> Result<SnapshotSlot, TaskError> {
    let failover = if version >= sql::FAILOVER_SINCE { Failover::On } else { Failover::Off };
    let slot = creator.slot().to_owned();
    let pid = creator.pid().unwrap_or_default();
    let until = Instant::now() + wait;
    let created = with_connection(access, command, async |watcher| {
        let mut creating = pin!(creator.create(failover));
        let mut waits = TransactionWaits::of("the slot");
        loop {
            tokio::select! {
                biased;
                made = &mut creating => return Ok(made.map_err(refused)?),
                () = sleep(Duration::from_secs(1)) => {}
            }
            // Also at the end: a wait of a second is over before anybody has looked.
            waits.report(watcher, Waited::By(pid), out).await?;
            if Instant::now() >= until {
                // Its own timeouts do not end the wait, and neither does a closed connection.
                watcher.query_one("select pg_terminate_backend($1)", &[&pid]).await?;
                return match creating.await {
                    Ok(made) => Ok(made),
                    Err(_) => Err(waits.failure(&slot, wait).into()),
                };
            }
        }
    });
    Box::pin(created).await
}

/// Begins a transaction that sees what the slot's stream leaves out, and nothing else, and
/// [holds](hold) the slot from then on.
///
/// # Errors
/// The snapshot cannot be imported, or the slot cannot be held.
pub(super) async fn import(
    reader: &Client,
    slot: SnapshotSlot,
    moved: Case,
) -> Result<SlotHolder, TaskError> {
    let snapshot = quote_literal(slot.snapshot());
    let begin = format!("{BEGIN}; set transaction snapshot {snapshot}");
    reader.batch_execute(&begin).await?;
    hold(reader, slot, moved).await
}

/// Holds the slot.
///
/// # Errors
/// It cannot be held. `moved`: it was moved, or made again, since it was created, so that rows may
/// be in neither snapshot nor stream.
pub(super) async fn hold(
    client: &Client,
    slot: SnapshotSlot,
    moved: Case,
) -> Result<SlotHolder, TaskError> {
    let (name, begins_at) = (slot.name().to_owned(), slot.begins_at());
    let holder = slot.hold().await?;
    let query = "select coalesce(confirmed_flush_lsn::text, '') \
         from pg_replication_slots where slot_name = $1";
    let stands_at = client.query_opt(query, &[&name]).await?;
    let stands_at: String = stands_at.map_or(Ok(String::new()), |row| row.try_get(0))?;
    if begins_at.is_some() && stands_at.parse().ok() == begins_at {
        return Ok(holder);
    }
    let begins_at = begins_at.map_or_else(String::new, |at| at.to_string());
    let what = format!(
        "the slot {name} was made at {begins_at}, and stood at {stands_at} before this command \
         held it: somebody has moved it, or made it again"
    );
    Err(Failure::of(moved, what).into())
}

/// A table of these that was rewritten after the snapshot of the reader's transaction was taken,
/// and before it was read; it is locked since then. To an older snapshot a table that ALTER TABLE
/// or TRUNCATE has rewritten looks empty (manual, "Caveats" of concurrency control), and one that
/// VACUUM FULL or CLUSTER has rewritten cannot be told from it.
///
/// # Errors
/// The catalog cannot be read.
pub(super) async fn rewritten(
    reader: &Client,
    tables: &[u32],
) -> Result<Option<String>, tokio_postgres::Error> {
    let row = reader.query_opt(REWRITTEN, &[&tables]).await?;
    let Some(row) = row else { return Ok(None) };
    let table: String = row.try_get(0)?;
    Ok(Some(format!("{table} was rewritten (ALTER TABLE, TRUNCATE, VACUUM FULL or CLUSTER)")))
}

/// The catalog shows the file of the snapshot, and the function the present one.
const REWRITTEN: &str = "\
    select c.oid::regclass::text from pg_class c \
    where c.relkind = 'r' and c.relfilenode is distinct from pg_relation_filenode(c.oid) \
      and (c.oid = any ($1) \
        or c.oid in (select p.relid from unnest($1) t (oid), pg_partition_tree(t.oid) p)) \
    order by 1 limit 1";

/// Where the role may not do it, the hint is that of a command.
fn refused(failure: Failure) -> Failure {
    if failure.code == Code::RoleLacksReplication {
        return failure.with_case(Case::CommandMayNotReplicate);
    }
    if failure.code == Code::ServerFull {
        return failure.with_case(Case::NoFreeSlot);
    }
    denied(failure)
}
