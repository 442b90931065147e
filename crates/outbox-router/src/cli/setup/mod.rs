//! `setup`: creates what a router needs in PostgreSQL, and the first witness in the state topic; or
//! prints the SQL for it.
//!
//! The publication is always created before the slot: the slot decodes WAL with the catalog as it
//! was at each position, and a publication created later does not exist there. `setup` may be run
//! again: it checks what exists, and changes it only by adding a table to the publication. What
//! does not fit is refused, with the statement that corrects it.
//!
//! Nothing is half made. Kafka is asked first, since a slot whose witness cannot be written keeps
//! WAL for nobody. Tables, role and publication are made in one transaction. The slot is made last,
//! because PostgreSQL cannot make one in a transaction that has written, and because from then on
//! it keeps WAL.

mod args;
mod backfill;
mod dead_letters;
mod first;
mod for_switch;
mod letter_topic;
mod partitions;
mod polled_before;
mod polled_indexes;
mod polling;
mod polling_print;
mod preflight;
mod print;
mod publication;
mod role;
mod router_schema;
mod slot;
mod table;
mod time_index;
mod transaction;
mod typed;
mod unused;

use std::io;

use relay::{Case, Failure, OutboxTable, TableName, witness::ProducedTo};
use tokio_postgres::Client;

use super::{
    DeadLetterTables, Exit, SqlMode, TaskError, Terminal,
    connect::{Access, with_connection},
    open_events::OpenEvents,
    sql,
};
use crate::{
    codes::ADMIN,
    config::{Config, SourceKind},
    postgres::quote_table,
};
pub use args::{BackfillArgs, OlderRows, SetupArgs};
use backfill::{Backfill, Backfilled, DividedSlot};
pub(super) use first::Divided;
use first::{Next, SlotOrigin};
pub(super) use for_switch::{
    RouterRole, check_kafka, check_stream, make_role, make_topic, record_beginning, refuse_unready,
    rehearse_stream,
};
pub use partitions::TableForm;
use slot::ExistingSlot;
use table::make_table;
use transaction::all_or_nothing;

/// The version of a server that can have a slot.
///
/// # Errors
/// It cannot.
pub(super) async fn check_server(client: &Client) -> Result<i32, TaskError> {
    preflight::server(client).await
}

/// Refuses to take the place of a slot that was made for something else.
///
/// # Errors
/// It was.
pub(super) async fn check_slot(client: &Client, name: &str) -> Result<(), TaskError> {
    match slot::find(client, name).await? {
        Some(slot) => Ok(slot.check_purpose(name)?),
        None => Ok(()),
    }
}

/// Whether the publication exists.
pub(super) async fn has_publication(
    client: &Client,
    name: &str,
    version: i32,
) -> Result<bool, TaskError> {
    Ok(publication::find(client, name, version).await?.is_some())
}

/// Creates the publication, or adds the tables that it lacks.
pub(super) async fn mend_publication(
    client: &Client,
    config: &Config,
    (tables, version): (&[TableName], i32),
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let name = config.postgres.publication.as_str();
    match publication::find(client, name, version).await? {
        None => publication::create(client, config, (tables, version), out).await,
        Some(known) => {
            let outboxes = config.outboxes();
            let added = publication::fit(client, name, &known, tables, &outboxes, out).await?;
            slot::report_streaming(client, config.postgres.slot.as_str(), &added, out).await
        }
    }
}

/// Prints the SQL, or runs it and creates the first witness.
pub(super) async fn setup(
    args: &SetupArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    match (config.postgres.source, args.write) {
        (SourceKind::Stream, SqlMode::Print) => {
            print::print(args, config, access, terminal.out)?;
            Ok(Exit::Done)
        }
        (SourceKind::Stream, SqlMode::Apply) => {
            Box::pin(apply(args, config, access, terminal)).await
        }
        (SourceKind::Polling, SqlMode::Print) => {
            Box::pin(polling_print::print(args, config, access, terminal.out)).await?;
            Ok(Exit::Done)
        }
        (SourceKind::Polling, SqlMode::Apply) => {
            Box::pin(polling::apply(args, config, access, terminal)).await
        }
    }
}

async fn apply(
    args: &SetupArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let out = &mut *terminal.out;
    let outboxes = sql::outboxes(config);
    let tables: Vec<TableName> = outboxes.iter().map(|outbox| outbox.name.clone()).collect();
    let (name, publication) = (config.postgres.slot.as_str(), config.postgres.publication.as_str());
    first::check_kafka(args.record, config, access).await?;
    let version = with_connection(access, "setup", async |client| {
        client.batch_execute(sql::TIMEOUTS).await?;
        let version = preflight::server(client).await?;
        let unfit = preflight::mappings(client, config).await?;
        // Checked before anything is created, so that a refusal leaves nothing behind.
        let are_switched = polled_before::are_switched(client, &tables).await?;
        let slot = slot::find(client, name).await?;
        match &slot {
            Some(slot) => slot.check_fits(name)?,
            None => first::refuse_former_slot(args.record, config, access, client).await?,
        }
        if slot.is_none() || are_switched {
            polled_before::refuse_polled(client, &config.name, &tables).await?;
        }
        backfill::refuse_unready(args.backfill.rows, client, config, slot.as_ref()).await?;
        let known = publication::find(client, publication, version).await?;
        if slot.is_some() && known.is_none() {
            return Err(publication::made_too_late(publication, name).into());
        }
        if let Some(known) = &known {
            known.refuse_unfit(publication, &tables, &config.outboxes())?;
        }
        let (outboxes, tables) = (outboxes.as_slice(), tables.as_slice());
        let origin = if slot.is_some() { SlotOrigin::Before } else { SlotOrigin::Now };
        let objects = Objects { args, config, access, outboxes, tables, are_switched, origin };
        out.write_all(&Box::pin(objects.make(client, version)).await?)?;
        for outbox in outboxes {
            time_index::report(client, config, &outbox.name, out).await?;
        }
        for other in OpenEvents::others(client, config).await? {
            writeln!(out, "table outbox_router.held: {}", other.of_other())?;
        }
        Ok((version, slot, unfit))
    });
    let (version, slot, unfit) = Box::pin(version).await?;
    if slot.is_none() {
        first::make_topic(args.record, config, access).await?;
    }
    let slots = Slots { args, config, access, tables: &tables, version };
    let Some(Made { origin, held, produced_to }) = Box::pin(slots.make(slot, terminal)).await?
    else {
        return Ok(Exit::Failure);
    };
    let out = &mut *terminal.out;
    let pid = held.as_deref().and_then(|held| held.holder.pid());
    // Of a slot that an earlier process has made, it is not known what was done since.
    let sent = match (origin, args.backfill.older()) {
        (SlotOrigin::Now, OlderRows::Send) => &tables[..],
        (SlotOrigin::Now, OlderRows::Leave) | (SlotOrigin::Before, _) => &[],
    };
    let divided = held.as_deref().map(DividedSlot::divided);
    let made = first::Slot { origin, holder: pid, sent, divided, produced_to: &produced_to };
    let next = slots.record(made, out).await?;
    drop(held);
    letter_topic::report(args.record, config, out).await?;
    for note in unused::notes(args, config) {
        writeln!(out, "note: {note}")?;
    }
    slots.say_older((origin, next), out).await?;
    say_next(next, &unfit, out)?;
    Ok(Exit::Done)
}

fn say_next(next: Next, unfit: &[Failure], out: &mut (dyn io::Write + Send)) -> io::Result<()> {
    match next {
        Next::Run => polling::say_run(unfit, out),
        Next::RecoverFirst => writeln!(
            out,
            "next: outbox-router recover {} sends the missing rows and closes the gap; or \
             outbox-router accept gives them up; only then: outbox-router run",
            ADMIN
        ),
        Next::AcceptFirst => {
            writeln!(out, "next: outbox-router accept, and only then: outbox-router run")
        }
    }
}

/// What is made in one transaction.
struct Objects<'a> {
    args: &'a SetupArgs,
    config: &'a Config,
    access: Access<'a>,
    outboxes: &'a [OutboxTable],
    tables: &'a [TableName],
    /// Whether a switch has handed some of them to the stream.
    are_switched: bool,
    /// The slot's: one that is there already may have left out what is found now.
    origin: SlotOrigin,
}

impl Objects<'_> {
    /// Makes what is missing, or nothing at all; returns what to print of it.
    async fn make(&self, client: &Client, version: i32) -> Result<Vec<u8>, TaskError> {
        let make = async |made: &mut Vec<u8>| Box::pin(self.make_each(client, version, made)).await;
        all_or_nothing(client, self.access, make).await
    }

    async fn make_each(
        &self,
        client: &Client,
        version: i32,
        out: &mut Vec<u8>,
    ) -> Result<(), TaskError> {
        let Self { args, config, access, outboxes, tables, are_switched, origin } = *self;
        for outbox in outboxes {
            make_table(client, outbox, args, config, out).await?;
        }
        if let Some(name) = &args.role {
            let password = access.password_of_router(name);
            role::make(client, (name, password.as_ref()), args.managed, out).await?;
        }
        if args.dead_letters == DeadLetterTables::Make {
            dead_letters::make(client, dead_letters::role(args, access).as_deref(), out).await?;
        }
        mend_publication(client, config, (tables, version), out).await?;
        if origin == SlotOrigin::Now {
            publication::check(client, config, version).await?;
        }
        if are_switched {
            polled_before::note_streamed(client, tables).await?;
        }
        Ok(())
    }
}

/// The slot.
struct Made {
    origin: SlotOrigin,
    /// Of one that has divided rows.
    held: Option<Box<DividedSlot>>,
    /// The topics that the older rows were sent to.
    produced_to: ProducedTo,
}

impl Made {
    const fn without_rows(origin: SlotOrigin) -> Self {
        Self { origin, held: None, produced_to: ProducedTo::new() }
    }
}

/// What the slot is made from, where it does not exist.
struct Slots<'a> {
    args: &'a SetupArgs,
    config: &'a Config,
    access: Access<'a>,
    tables: &'a [TableName],
    version: i32,
}

impl Slots<'_> {
    const fn backfill(&self) -> Backfill<'_> {
        let Self { args, config, access, tables, version } = *self;
        Backfill { args, config, access, tables, version }
    }

    /// Writes the first witness. Where rows that a back-fill has divided were altered before it,
    /// the back-fill goes on.
    async fn record(
        &self,
        made: first::Slot<'_>,
        out: &mut (dyn io::Write + Send),
    ) -> Result<Next, TaskError> {
        let Self { args, config, access, .. } = *self;
        let recorded = Box::pin(first::record(args.record, made, config, access, out)).await;
        if let Err(TaskError::Failure(failure)) = &recorded
            && failure.case == Some(Case::BackfillAltered)
        {
            self.backfill().reopen().await?;
        }
        recorded
    }

    /// Makes the slot, and sends the older rows if it is told to; `None`: not all of them. A holder
    /// keeps the slot from routers.
    async fn make(
        &self,
        slot: Option<ExistingSlot>,
        terminal: &mut Terminal<'_>,
    ) -> Result<Option<Made>, TaskError> {
        let Self { args, config, access, version, .. } = *self;
        let name = config.postgres.slot.as_str();
        match (slot, args.backfill.rows) {
            (slot, OlderRows::Send) => {
                Ok(match Box::pin(self.backfill().carry_out(slot.as_ref(), terminal)).await? {
                    Backfilled::Complete(held, produced_to) => {
                        let is_made = held.is_some();
                        let origin = if is_made { SlotOrigin::Now } else { SlotOrigin::Before };
                        Some(Made { origin, held, produced_to })
                    }
                    Backfilled::Stopped => None,
                })
            }
            (Some(slot), OlderRows::Leave) => {
                writeln!(terminal.out, "slot {name}: exists already, at {}", slot.position)?;
                Ok(Some(Made::without_rows(SlotOrigin::Before)))
            }
            (None, OlderRows::Leave) => {
                let created = slot::create(access, name, version, args.wait, terminal.out);
                Box::pin(created).await?;
                Ok(Some(Made::without_rows(SlotOrigin::Now)))
            }
        }
    }

    /// Names the tables that have rows: a slot that was made now has none of these. A table that
    /// the role may not read is left out.
    async fn say_older(
        &self,
        made: (SlotOrigin, Next),
        out: &mut (dyn io::Write + Send),
    ) -> Result<(), TaskError> {
        if (made, self.args.backfill.rows) != ((SlotOrigin::Now, Next::Run), OlderRows::Leave) {
            return Ok(());
        }
        let tables = self.tables;
        let having = with_connection(self.access, "setup", async |client| {
            client.batch_execute(sql::TIMEOUTS).await?;
            let mut having = Vec::new();
            for table in tables {
                let query = format!("select exists (select from {})", quote_table(table));
                if let Ok(row) = client.query_one(&query, &[]).await
                    && row.try_get(0)?
                {
                    having.push(table.to_string());
                }
            }
            Ok(having)
        });
        let having = having.await?.join(", ");
        if !having.is_empty() {
            writeln!(
                out,
                "note: rows written to {having} before now are not delivered; to have them sent: \
                 outbox-router teardown --apply {ADMIN}, then outbox-router setup --apply \
                 --backfill {ADMIN}"
            )?;
        }
        Ok(())
    }
}
