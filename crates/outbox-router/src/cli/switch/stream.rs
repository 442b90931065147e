//! `switch stream`.

use relay::{
    Case, Code, Failure, Lsn, TableName,
    handover::switch::{SlotFound, SwitchState, ToStream},
    source::Catalog,
    witness::ProducedTo,
};
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{
    ASK_EVERY, COMMAND, Described, Switching, TELL_EVERY, args::ToStreamArgs, commits::Seen,
};
use crate::{
    cli::{
        Exit, OlderRows, TaskError, Terminal,
        connect::with_connection,
        new_slot,
        republication::session,
        setup::{
            Divided, RouterRole, check_kafka, check_stream, has_publication, make_role, make_topic,
            mend_publication, record_beginning, rehearse_stream,
        },
    },
    codes::ADMIN,
    monitor::catalog::with_partitions_of_snapshot,
    polling::sql::{PolledTable, begin_snapshot},
    prepare,
    shell::SlotHolder,
};

/// What a person has to know where the command ends before it is complete.
const STOPPED: &str = "\
the switch is not complete, and nobody polls the tables: the same command goes on, and \
outbox-router switch polling gives the tables back to the workers";

impl Switching<'_> {
    /// Hands the tables to the stream.
    pub(super) async fn to_stream(
        &self,
        args: &ToStreamArgs,
        terminal: &mut Terminal<'_>,
    ) -> Result<Exit, TaskError> {
        check_kafka(self.config, self.access).await?;
        let version = check_stream(self.books, self.config, &self.names).await?;
        let found = self.found().await?;
        let Some(todo) = found.to_stream()? else {
            writeln!(terminal.out, "the tables are streamed already: {}", self.table_list())?;
            if found.slot != SlotFound::There {
                let slot = self.slot();
                writeln!(
                    terminal.out,
                    "  but their slot {slot} is gone or lost: with postgres.source = \"stream\", \
                     outbox-router status says what to do"
                )?;
                return Ok(Exit::Failure);
            }
            self.say_next(terminal)?;
            return Ok(Exit::Done);
        };
        self.refuse_without_standby(terminal).await?;
        // What cannot be polled to its end is refused before anything is made.
        let mut last = self.described(Uuid::new_v4()).await?;
        self.refuse_abandoned(&mut last).await?;
        let role = args.role.clone().or_else(|| self.access.role_of_router());
        let router = self.router_role(args, role.as_deref());
        if todo == ToStream::Send {
            self.refuse_later(&last.tables, PolledTable::pending_after, args.wait).await?;
            self.refuse_pooler(args).await?;
            let of = (self.names.as_slice(), version);
            let role = (router, role.as_deref());
            rehearse_stream(self.books, (self.config, self.access), of, role).await?;
        }
        self.say_left_behind(&mut last, terminal).await?;
        let steps = self.steps_to_stream(todo, role.as_deref());
        if let Some(exit) = self.ask(&args.how, &steps, "hand them over", terminal)? {
            return Ok(exit);
        }
        let done = match todo {
            ToStream::Send => {
                make_role(self.books, self.access, router, terminal.out).await?;
                reached!(StreamRoleMade);
                make_topic(self.config, self.access).await?;
                reached!(StreamTopicMade);
                self.switched.make_tables(self.books, role.as_deref()).await?;
                self.switched.close(self.books, last.worker, self.by).await?;
                self.say_unpolled(terminal)?;
                reached!(StreamClosed);
                let sent = Box::pin(self.send((args, version), &mut last, terminal)).await;
                if !matches!(sent, Ok(true)) {
                    writeln!(terminal.err, "{STOPPED}")?;
                }
                sent?
            }
            ToStream::Finish => {
                let held = self.held_slot().await?;
                self.finish(&held, (None, &[], &ProducedTo::new()), terminal).await?;
                true
            }
        };
        if !done {
            return Ok(Exit::Failure);
        }
        self.say_next(terminal)?;
        Ok(Exit::Done)
    }

    /// Does what is to be done while nobody polls the tables.
    async fn send(
        &self,
        (args, version): (&ToStreamArgs, i32),
        last: &mut Described,
        terminal: &mut Terminal<'_>,
    ) -> Result<bool, TaskError> {
        writeln!(terminal.out, "workers: are told to give back their keys")?;
        self.wait_for_workers(last.worker, terminal).await?;
        reached!(StreamWorkersGone);
        // Workers may have abandoned rows since they were looked at, and others were written.
        self.refuse_abandoned(last).await?;
        self.refuse_later(&last.tables, PolledTable::pending_after, args.wait).await?;
        self.make_objects(version, terminal).await?;
        Box::pin(self.with_new_slot((args, version), last, terminal)).await
    }

    fn steps_to_stream(&self, todo: ToStream, role: Option<&str>) -> Vec<String> {
        let mut steps = Vec::new();
        if todo == ToStream::Send {
            let right = |role| format!("the role {role} may replicate, if it may not yet");
            steps.extend(role.map(right));
            steps.extend([
                format!("the workers that poll {} give back their keys", self.table_list()),
                format!(
                    "publication {} and slot {} are made",
                    self.config.postgres.publication,
                    self.slot()
                ),
                "the pending rows that are older than the slot are sent, and marked".to_owned(),
            ]);
        }
        steps.push("the witness is written, and the tables are polled no more".to_owned());
        steps
    }

    fn say_next(&self, terminal: &mut Terminal<'_>) -> Result<(), TaskError> {
        writeln!(
            terminal.out,
            "next: set postgres.source = \"stream\", take out the keys that polling alone has \
             (outbox-router check names them), and start outbox-router run again"
        )?;
        if self.config.on_error.has_dead_letters() {
            writeln!(
                terminal.out,
                "before it starts, for what [on_error] keeps: outbox-router setup --apply \
                 --dead-letters {ADMIN}; and make the topic of dead_letters.topic, or set it to \"\""
            )?;
        }
        Ok(())
    }

    /// A slot is made and followed over a connection for replication, which few poolers pass on.
    async fn refuse_pooler(&self, args: &ToStreamArgs) -> Result<(), TaskError> {
        drop(new_slot::connect(&self.source()?).await?);
        let router = prepare::source(self.config, self.access.endpoint_of_router(COMMAND)?);
        let Err(failure) = router.slot_creator().await else { return Ok(()) };
        if failure.case == Some(Case::Pooler) {
            let what = "postgres.url leads to a connection pooler, which passes no connection \
                        for replication on: the router could not follow the slot";
            return Err(Failure::of(Case::Pooler, what).into());
        }
        // The right, or the role itself, is given before the slot is made; the server may be out of
        // reach from here alone.
        let is_mended = [Code::RoleLacksReplication, Code::ServerUnreachable];
        if args.role.is_some() || is_mended.contains(&failure.code) {
            return Ok(());
        }
        Err(failure.into())
    }

    async fn wait_for_workers(
        &self,
        holder: Uuid,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        let mut told = None::<Instant>;
        loop {
            let holders = self.switched.holders(self.books, holder).await?;
            if holders.is_empty() {
                writeln!(terminal.out, "workers: hold nothing any more")?;
                return Ok(());
            }
            if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                told = Some(Instant::now());
                writeln!(terminal.out, "workers: waiting for {}", holders.join(", "))?;
                terminal.out.flush()?;
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// The role that typed the command can do without a role of the router.
    fn router_role<'r>(
        &self,
        args: &ToStreamArgs,
        role: Option<&'r str>,
    ) -> Option<RouterRole<'r>> {
        let own = self.access.role();
        let role = role.filter(|role| own.as_deref() != Some(*role) || args.role.is_some());
        role.map(|name| RouterRole { name, managed: args.managed })
    }

    /// What the stream needs beside the slot.
    async fn make_objects(
        &self,
        version: i32,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        let name = self.config.postgres.publication.as_str();
        if !has_publication(self.books, name, version).await? {
            self.switched.note_publication(self.books).await?;
            reached!(StreamPublicationNoted);
        }
        let of = (self.names.as_slice(), version);
        mend_publication(self.books, self.config, of, terminal.out).await?;
        reached!(StreamPublicationMade);
        Ok(())
    }

    /// Makes the slot, sends the rows that its snapshot sees, and hands the tables over. The slot
    /// is held meanwhile: a router that took it before would send later rows of a key before
    /// earlier ones.
    async fn with_new_slot(
        &self,
        (args, version): (&ToStreamArgs, i32),
        last: &mut Described,
        terminal: &mut Terminal<'_>,
    ) -> Result<bool, TaskError> {
        let source = self.source()?;
        let creator = new_slot::connect(&source).await?;
        let before = self.catalog(None).await?;
        // Nobody has read from it: an earlier run has made it.
        new_slot::drop_former(self.books, &source).await?;
        reached!(StreamFormerSlotDropped);
        self.switched.forget_rows(self.books).await?;
        reached!(StreamRowsForgotten);
        let command = (self.access, COMMAND);
        let made = new_slot::create(command, creator, version, args.wait, terminal.out);
        let made = Box::pin(made).await?;
        reached!(StreamSlotMade);
        let begins_at = made.begins_at().unwrap_or(Lsn::ZERO);
        writeln!(terminal.out, "slot {}: created at {begins_at}", self.slot())?;
        let snapshot = made.snapshot().to_owned();
        let rows = with_connection(self.access, COMMAND, async |reader| {
            reader.batch_execute(&session()).await?;
            note_rows(reader, (&snapshot, version), before, &last.tables).await
        });
        let Noted { rows, seen, before } = Box::pin(rows).await?;
        reached!(StreamRowsNoted);
        let mut held = new_slot::hold(self.books, made, Case::SwitchAltered).await?;
        writeln!(terminal.out, "pending rows: {rows} are older than the slot")?;
        if rows > 0 {
            tokio::select! {
                waited = Box::pin(self.wait_until_seen(&seen, args.wait, terminal)) => waited?,
                failure = held.lost() => return Err(failure.into()),
            }
            // One may have been written since they were looked at last.
            self.refuse_later(&last.tables, PolledTable::switched_after, args.wait).await?;
        }
        let drained = Box::pin(self.drain(last, &mut held, terminal)).await?;
        let Some(produced_to) = drained else { return Ok(false) };
        // What was abandoned last is not pending any more.
        self.refuse_abandoned(last).await?;
        // Or it was requeued in the moment before.
        self.refuse_unsent(&last.tables).await?;
        let divided = Divided { before: &before, altered: Case::SwitchAltered };
        divided.check(&self.catalog(Some(&before)).await?)?;
        Box::pin(self.refuse_unknown(&last.tables)).await?;
        writeln!(terminal.out, "pending rows: are sent and marked")?;
        reached!(StreamSent);
        self.switched.set(self.books, SwitchState::Sent).await?;
        reached!(StreamSentNoted);
        let sent = match self.older_rows(last).await? {
            OlderRows::Send => &self.names[..],
            OlderRows::Leave => &[],
        };
        self.finish(&held, (Some(divided), sent, &produced_to), terminal).await?;
        Ok(true)
    }

    /// Writes the witness, and says that the tables are streamed. `divided`: this process has made
    /// the slot.
    async fn finish(
        &self,
        held: &SlotHolder,
        (divided, sent, produced_to): (Option<Divided<'_>>, &[TableName], &ProducedTo),
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        let command = (self.config, self.access);
        let of = (divided, held.pid());
        record_beginning(command, of, (sent, produced_to), terminal.out).await?;
        reached!(StreamWitnessWritten);
        self.switched.forget_partitions(self.books).await?;
        self.switched.set(self.books, SwitchState::Stream).await?;
        reached!(StreamHandedOver);
        self.switched.forget_rows(self.books).await?;
        reached!(StreamComplete);
        writeln!(terminal.out, "tables: handed to the stream, {}", self.table_list())?;
        Ok(())
    }
}

/// The pending rows that the snapshot of the slot sees.
struct Noted {
    rows: u64,
    seen: Seen,
    /// Publication and tables, with the partitions that it shows.
    before: Catalog,
}

/// Notes which pending rows the snapshot sees.
async fn note_rows(
    reader: &Client,
    (snapshot, version): (&str, i32),
    before: Catalog,
    tables: &[PolledTable],
) -> Result<Noted, TaskError> {
    reader.batch_execute(&begin_snapshot(Some(snapshot))).await?;
    let seen = Seen::by(reader).await?;
    let before = with_partitions_of_snapshot(&mut &*reader, version, before).await?;
    let mut rows = 0;
    for table in tables {
        rows += reader.execute(&table.note_pending(), &[]).await?;
    }
    reader.batch_execute("commit").await?;
    Ok(Noted { rows, seen, before })
}
