//! `switch polling`.

use std::time::Duration;

use relay::{
    Case, Code, Failure, Lsn, Name,
    delivered::{StreamEnd, compared::FirstOfGap},
    handover::switch::{SwitchState, ToPolling},
    held::TableMark,
};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{
    ASK_EVERY, Switching,
    args::{OlderPending, ToPollingArgs},
    older::Since,
};
use crate::{
    cli::{
        Exit, TaskError, Terminal,
        first_of_gap::first_of_gap,
        new_slot,
        open_events::OpenEvents,
        setup::refuse_unready,
        teardown::leave_publication,
        witness::{self, Records},
    },
    codes::ADMIN,
    config::print_duration,
    postgres::quote_identifier,
    republish::left_out,
    shell::SlotHolder,
};

/// How long a process that was killed may take to free the slot.
const FREED_WITHIN: Duration = Duration::from_secs(10);

/// How often rows are read that were deleted or changed since they were read.
const ROUNDS: u32 = 3;

/// What the stream has delivered.
pub(super) struct Delivered {
    /// Where the stream has ended.
    pub(super) end: StreamEnd,
    /// Since when the rows of the tables are events.
    pub(super) since: Since,
    /// The first transaction that may have committed behind what is delivered.
    pub(super) first: Option<FirstOfGap>,
}

impl Switching<'_> {
    /// Lets the tables be polled.
    pub(super) async fn to_polling(
        &self,
        args: &ToPollingArgs,
        terminal: &mut Terminal<'_>,
    ) -> Result<Exit, TaskError> {
        let found = self.found().await?;
        let Some(todo) = found.to_polling(args.streamed)? else {
            let tables = self.table_list();
            if let Some(left) = found.left_of_a_stream() {
                writeln!(
                    terminal.err,
                    "error: no switch says that {tables} are streamed, and {left}"
                )?;
                return Ok(Exit::Failure);
            }
            writeln!(terminal.out, "the tables are polled already: {tables}")?;
            return Ok(Exit::Done);
        };
        let role = self.access.role_of_router();
        refuse_unready(self.books, role.as_deref()).await?;
        self.refuse_without_standby(terminal).await?;
        if todo == ToPolling::Mark {
            // What cannot be polled, or be marked as delivered, is refused before anything is made.
            let tables = self.described(Uuid::nil()).await?.tables;
            self.refuse_unknown_left_out(&tables).await?;
            self.refuse_open_events().await?;
            self.wait_for_slot().await?;
            let Delivered { since, .. } = self.delivered(None).await?;
            self.events(self.books, &tables, &since, args).await?;
        }
        let steps = self.steps_to_polling(todo, args.older);
        if let Some(exit) = self.ask(&args.how, &steps, "let them be polled", terminal)? {
            return Ok(exit);
        }
        self.switched.make_tables(self.books, role.as_deref()).await?;
        if todo == ToPolling::Mark {
            self.switched.say_streamed(self.books, self.by).await?;
            self.say_unpolled(terminal)?;
            reached!(PollingStreamNoted);
            let mut held = self.held_slot().await?;
            if !Box::pin(self.mark(args, &mut held, terminal)).await? {
                return Ok(Exit::Failure);
            }
            // Until now no router could stream what was marked as not delivered.
            drop(held);
        }
        self.clean_up(todo, terminal).await?;
        if let Some(role) = &role {
            self.say_replication(role, terminal).await?;
        }
        let next = match todo {
            // The configuration of the workers was never changed.
            ToPolling::Cancel => format!(
                "workers that run take the tables again, at the latest after polling.lease ({}), \
                 and say standby until then; where none runs: outbox-router run",
                print_duration(self.config.polling.lease)
            ),
            ToPolling::Mark | ToPolling::CleanUp => format!(
                "outbox-router setup --apply {ADMIN}, where it was never typed for polling, and \
                 start outbox-router run again"
            ),
        };
        writeln!(terminal.out, "next: {next}")?;
        Ok(Exit::Done)
    }

    fn steps_to_polling(&self, todo: ToPolling, older: Option<OlderPending>) -> Vec<String> {
        let tables = self.table_list();
        let mut steps = Vec::new();
        if todo == ToPolling::Mark {
            steps.push(format!(
                "the slot {} is held: no router may stream from it meanwhile",
                self.slot()
            ));
            steps.push(format!(
                "the rows of {tables} that are pending, and that the slot has no more, count as \
                 delivered: they are marked, or deleted where outbox.mark.how is \"delete\""
            ));
            steps.extend(older.map(|older| {
                let from_before = "rows from before their table was an outbox of the stream";
                match older {
                    OlderPending::Send => format!("{from_before} stay pending: workers send them"),
                    OlderPending::GiveUp => format!("{from_before} are given up, and marked, too"),
                }
            }));
        }
        let publication = &self.config.postgres.publication;
        let publication = if self.standing.made_publication {
            format!(" and publication {publication}")
        } else {
            String::new()
        };
        steps
            .push(format!("slot {}{publication} dropped, and the witness is deleted", self.slot()));
        steps.push(format!("workers may poll {tables}"));
        steps
    }

    /// What could not be delivered is not marked, and a worker would send it again behind what was
    /// written later.
    async fn refuse_open_events(&self) -> Result<(), TaskError> {
        match OpenEvents::own(self.books, self.config).await? {
            None => Ok(()),
            Some(open) => {
                let what = format!(
                    "{}, and not delivered: dead-letters shows them with the configuration of the \
                     stream (postgres.source = \"stream\"), and a router that streams delivers or \
                     drops them",
                    open.are_held()
                );
                Err(Failure::of(Case::SwitchHeld, what).into())
            }
        }
    }

    /// Holds the slot.
    pub(super) async fn held_slot(&self) -> Result<SlotHolder, TaskError> {
        self.wait_for_slot().await?;
        Ok(self.source()?.hold_slot().await?)
    }

    /// Waits for the slot, which a former run of this command may be about to free.
    async fn wait_for_slot(&self) -> Result<(), TaskError> {
        let source = self.source()?;
        let own = &source.endpoint.application_name;
        let until = Instant::now() + FREED_WITHIN;
        let query = "select s.active_pid, coalesce(a.application_name, '') \
                     from pg_replication_slots s left join pg_stat_activity a \
                       on a.pid = s.active_pid \
                     where s.slot_name = $1 and s.active_pid is not null";
        while let Some(row) = self.books.query_opt(query, &[&self.slot()]).await? {
            let (pid, application): (i32, String) = (row.try_get(0)?, row.try_get(1)?);
            if application != *own || Instant::now() >= until {
                let what = format!(
                    "the slot {} is in use by pid {pid}, {application}: stop the router first",
                    self.slot()
                );
                let failure = Failure::of(Case::SlotNeeded, what).naming(Name::Pid, pid);
                return Err(failure.into());
            }
            sleep(ASK_EVERY).await;
        }
        Ok(())
    }

    /// Marks what the stream has delivered. Returns `false` where it had to stop before.
    async fn mark(
        &self,
        args: &ToPollingArgs,
        held: &mut SlotHolder,
        terminal: &mut Terminal<'_>,
    ) -> Result<bool, TaskError> {
        let delivered = self.delivered(held.pid()).await?;
        let (slot, until) = (self.slot(), delivered.end.delivered_until());
        writeln!(terminal.out, "slot {slot}: everything before {until} is delivered")?;
        // What the stream has delivered of them would not be seen, and stay pending.
        tokio::select! {
            waited = Box::pin(self.wait_for_open(terminal)) => waited?,
            failure = held.lost() => return Err(failure.into()),
        }
        for _ in 0..ROUNDS {
            let marked = {
                let marking = Box::pin(self.mark_delivered(args, &delivered, terminal));
                tokio::select! {
                    marked = marking => marked?,
                    failure = held.lost() => return Err(failure.into()),
                }
            };
            writeln!(terminal.out, "rows: {} are marked as delivered", marked.rows)?;
            self.say_older(&marked.older, args.older, terminal)?;
            for (name, rows) in
                self.names.iter().zip(&marked.left_out).filter(|(_, rows)| **rows > 0)
            {
                writeln!(
                    terminal.out,
                    "rows: {rows} of {name} are left pending, and workers try them: \
                     outbox_router.left_out says why they were not sent"
                )?;
            }
            if marked.changed_meanwhile == 0 {
                reached!(PollingMarked);
                self.switched.set(self.books, SwitchState::Marked).await?;
                reached!(PollingMarkedNoted);
                return Ok(true);
            }
        }
        writeln!(
            terminal.err,
            "error: rows that are delivered could not be marked, since somebody else changes them \
             meanwhile; the same command goes on"
        )?;
        Ok(false)
    }

    /// Where the stream has ended, and since when rows are events. `holder`: this command's own
    /// walsender.
    ///
    /// # Errors
    /// Rows before it are not delivered, or the slot has rows of tables that are not configured.
    async fn delivered(&self, holder: Option<i32>) -> Result<Delivered, TaskError> {
        let source = self.source()?;
        let (mut reading, witness) = match Records::of(self.config, self.access)? {
            None => (source.read(None).await?, None),
            Some(records) => {
                let (reading, stored) = witness::read_together(&records, &source).await?;
                (reading, stored.witness.map(|witness| (witness, stored.cluster)))
            }
        };
        witness::ignore_holder(&mut reading, holder);
        let slot = reading.slot_reading.slot.as_ref();
        let confirmed = slot.and_then(|slot| slot.confirmed_flush_lsn).unwrap_or(Lsn::ZERO);
        let known = witness.as_ref().map(|(witness, _)| witness.clone());
        let of = (&reading.server, &reading.timelines);
        let end = StreamEnd::of(known, confirmed, of, reading.catalog.clone());
        let end = end.map_err(|obstacle| witness::refusal(self.config, obstacle));
        // Rows of a gap are not delivered, and would be marked.
        let Some((witness, cluster)) = witness else {
            self.switched.refuse_polled(self.books).await?;
            reading.held.check_seen()?;
            reading.held.check_there(TableMark::default())?;
            witness::baseline(self.config, reading, &[])?;
            let publication = self.config.postgres.publication.as_str();
            let left = self.switched.left_out(self.books, publication).await?;
            if let Some(table) = left.first() {
                let what = format!("the publication {publication} has table {table}");
                return Err(leaves_table(&what).into());
            }
            return Ok(Delivered { end: end?, since: None, first: None });
        };
        let (first, _) = first_of_gap(self.books, (&witness, &[]), &reading).await?;
        let streamed: Vec<u32> = witness.tables.iter().map(|table| table.as_u32()).collect();
        self.switched.refuse_unstreamed(self.books, &streamed).await?;
        left_out::check_there(self.books, &self.config.name, witness.notes).await?;
        let left = witness::check_as_left(self.config, &witness, &cluster, reading)?;
        let left = left.iter().find(|failure| failure.code == Code::TableUnconfigured);
        match left {
            Some(failure) => Err(leaves_table(&failure.message).into()),
            None => {
                let end = end?;
                let since = Some(witness.since_by(end.catalog()));
                Ok(Delivered { end, since, first })
            }
        }
    }

    /// Nothing says whether the switch has given the right, and something else may need it.
    async fn say_replication(
        &self,
        role: &str,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        let query = "select from pg_roles where rolname = $1 and rolreplication and not rolsuper";
        if self.books.query_opt(query, &[&role]).await?.is_some() {
            writeln!(
                terminal.out,
                "role {role}: may still replicate, which polling does not need: alter role {} \
                 noreplication",
                quote_identifier(role)
            )?;
        }
        Ok(())
    }

    /// Drops what the stream needs, and lets workers take the tables.
    async fn clean_up(
        &self,
        todo: ToPolling,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        // The slot first: without it no router streams any more.
        if new_slot::drop_former(self.books, &self.source()?).await? {
            writeln!(terminal.out, "slot {}: dropped", self.slot())?;
            reached!(PollingSlotDropped);
        }
        if let Some(records) = Records::of(self.config, self.access)? {
            let stored = records.read().await?;
            if stored.witness.is_some() {
                records.delete(stored).await?;
                reached!(PollingWitnessDeleted);
                writeln!(terminal.out, "witness: deleted")?;
            }
        }
        let publication = self.config.postgres.publication.as_str();
        if self.standing.made_publication {
            // A former run may have dropped it.
            let exists = "select from pg_publication where pubname = $1";
            if self.books.query_opt(exists, &[&publication]).await?.is_some() {
                leave_publication(self.books, self.config, terminal.out).await?;
                reached!(PollingPublicationDropped);
            } else {
                writeln!(terminal.out, "publication {publication}: dropped")?;
            }
        } else if todo != ToPolling::Cancel {
            writeln!(
                terminal.out,
                "publication {publication}: left, since no switch has made it; it costs nothing"
            )?;
        }
        self.switched.forget_rows(self.books).await?;
        reached!(PollingRowsForgotten);
        self.switched.open(self.books).await?;
        reached!(PollingOpened);
        writeln!(terminal.out, "tables: may be polled, {}", self.table_list())?;
        Ok(())
    }
}

fn leaves_table(what: &str) -> Failure {
    Failure::of(Case::SwitchLeavesTable, format!("{what}, and the slot is to be dropped"))
}
