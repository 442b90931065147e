//! `teardown`: drops the slot, and the publication where nothing else can use it, or prints the SQL
//! for it. Dropping a slot cannot
//! be undone, and no other slot delivers what it has not delivered; so a person types the slot's
//! name first.
//!
//! The witness, the record in the state topic, is deleted with the slot if a router would find
//! everything as it was left, and if the server has no committed row left to send. Otherwise, also
//! where the server cannot say, the witness stays, so that it is reported when the slot is
//! re-created; `--forget` deletes it nevertheless. Rows that are committed between the last reading
//! and the drop are not noticed.
//!
//! The witness also stays while events are held: they stay in their table, from which the next
//! router of this pipeline releases them, and without the witness nothing shows whether the table
//! has lost some.

use crate::wording;
use relay::{Case, Failure, Name};
use tokio_postgres::{Client, Row};

pub(super) use super::backlog::Backlog;
use super::{
    Confirmation, Exit, SqlMode, TaskError, TeardownArgs, Terminal,
    backlog::{Counted, Peek},
    connect::{Access, with_connection},
    open_events::{AllOpen, OpenEvents},
    polled_tables, sql,
};
use crate::{
    codes::ADMIN,
    config::{Config, SourceKind},
    polling::sql::switches_under_way,
};
use confirmed::is_confirmed;
pub(super) use publication::leave_publication;
use publication::print_publication;
use role::{drop_role, print_role};
use typed::to_apply;
use witness::{Dropped, Retiring};

mod confirmed;
mod exists;
mod polled;
mod publication;
mod role;
mod typed;
mod witness;

/// Prints the SQL, or runs it and decides about the witness.
pub(super) async fn teardown(
    args: &TeardownArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    if config.postgres.source == SourceKind::Polling {
        return Box::pin(polled::teardown(args, config, access, terminal)).await;
    }
    match args.write {
        SqlMode::Print => print(args, config, access, terminal),
        SqlMode::Apply => {
            let retiring = Box::pin(Retiring::before(args.record, config, access)).await;
            let work = with_connection(access, "teardown", async |client| {
                apply(client, args, config, retiring.counted(config), terminal).await
            });
            match Box::pin(work).await? {
                Some((dropped, held)) => {
                    let after =
                        retiring.after(dropped, held.as_ref(), args.open, config, terminal.out);
                    Box::pin(after).await?;
                    Ok(Exit::Done)
                }
                None => Ok(Exit::Failure),
            }
        }
    }
}

fn print(
    args: &TeardownArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let out = &mut terminal.out;
    writeln!(out, "-- what the slot has not delivered is not delivered by any other")?;
    writeln!(out, "{};", sql::drop_slot(config.postgres.slot.as_str()))?;
    print_publication(config, *out)?;
    if let Some(role) = &args.role {
        print_role(role, access, terminal)?;
    }
    let out = &mut terminal.out;
    writeln!(out, "-- the witness in Kafka is deleted by --apply alone")?;
    writeln!(out, "\n-- the outbox table stays, and so does outbox_router.held")?;
    writeln!(out, "-- to run it: {}", to_apply(args))?;
    Ok(Exit::Done)
}

/// Returns also what is held; `None`: the person did not confirm it.
async fn apply(
    client: &Client,
    args: &TeardownArgs,
    config: &Config,
    counted: Counted,
    terminal: &mut Terminal<'_>,
) -> Result<Option<(Dropped, Option<OpenEvents>)>, TaskError> {
    let under_way =
        switches_under_way(&mut &*client, &config.outboxes(), config.postgres.publication.as_str())
            .await?;
    under_way.into_iter().next().map_or(Ok(()), Err)?;
    let (slot, publication) = (config.postgres.slot.as_str(), config.postgres.publication.as_str());
    let found = client.query_opt(SLOT, &[&slot]).await?;
    let undelivered = async || {
        let peek = Peek { slot, publication, before: None, counted: &counted };
        Backlog::peek(client, peek).await
    };
    let mut backlog = None;
    if let Some(row) = &found {
        refuse_active(row, slot)?;
        say_handed(client, config, terminal).await?;
        let behind = u64::try_from(row.try_get::<_, i64>(2)?).unwrap_or_default();
        writeln!(terminal.out, "the slot {slot} is {} behind", wording::bytes(behind))?;
        let found = undelivered().await;
        found.report(slot, terminal.out)?;
        backlog = Some(found);
    }
    if let Some(held) = OpenEvents::own(client, config).await? {
        writeln!(
            terminal.out,
            "{}, and not delivered: outbox-router dead-letters list",
            held.are_held()
        )?;
    }
    if matches!(args.confirmation, Confirmation::Ask) {
        let question = if found.is_some() {
            format!("what it has not delivered will be lost; type {slot} to drop it: ")
        } else {
            format!("there is no slot; type {slot}, its name, to drop {publication}: ")
        };
        if !is_confirmed(slot, &question, terminal)? {
            return Ok(None);
        }
        // A person may take an hour, and rows may be written meanwhile.
        if found.is_some() {
            backlog = Some(undelivered().await);
        }
    }
    client.batch_execute(sql::TIMEOUTS).await?;
    if backlog.is_some() {
        client.batch_execute(&sql::drop_slot(slot)).await?;
        writeln!(terminal.out, "slot {slot}: dropped")?;
    } else {
        writeln!(terminal.out, "slot {slot}: does not exist")?;
    }
    leave_publication(client, config, terminal.out).await?;
    // A router may have delivered or held something meanwhile.
    let AllOpen { own: held, others } = AllOpen::read(client, config).await?;
    if let Some(held) = &held {
        let counted = held.counted();
        writeln!(
            terminal.out,
            "table outbox_router.held: left, with {counted} that are not delivered"
        )?;
    }
    for other in others {
        writeln!(terminal.out, "table outbox_router.held: {}", other.of_other())?;
    }
    if let Some(role) = &args.role {
        drop_role(client, role, terminal).await?;
    }
    Ok(Some((backlog.map_or(Dropped::Before, Dropped::Now), held)))
}

/// Names the tables that a switch has given to the slot: it cannot give them back without it.
async fn say_handed(
    client: &Client,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<(), TaskError> {
    for Failure { message, .. } in polled_tables::handed(client, config).await? {
        writeln!(
            terminal.out,
            "{message}: outbox-router switch polling {ADMIN} gives it back to workers, and needs the \
             slot"
        )?;
    }
    Ok(())
}

const SLOT: &str = "\
    select s.active_pid, nullif(a.application_name, ''), \
      coalesce(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() \
        else pg_current_wal_lsn() end, s.confirmed_flush_lsn), 0)::int8 \
    from pg_replication_slots s left join pg_stat_activity a on a.pid = s.active_pid \
    where s.slot_name = $1";

fn refuse_active(row: &Row, slot: &str) -> Result<(), TaskError> {
    let Some(pid) = row.try_get::<_, Option<i32>>(0)? else { return Ok(()) };
    let application: Option<String> = row.try_get(1)?;
    let application = application.map(|name| format!(", {name}")).unwrap_or_default();
    let message = format!("the slot {slot} is in use by pid {pid}{application}");
    Err(Failure::of(Case::SlotNeeded, message).naming(Name::Pid, pid).into())
}
