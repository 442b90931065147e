//! `setup --backfill`: the rows that the tables have already, before the slot's stream begins. The
//! snapshot that PostgreSQL exports with a new slot divides the rows: what it sees is read from the
//! tables and sent from here, and everything else comes in the slot's stream.
//!
//! The slot is held until the rows were sent and the witness was written: a router that took it
//! before would send later events of a key before earlier ones.
//!
//! A run that is interrupted goes on with another slot and another snapshot, as long as nobody has
//! moved the slot: nothing of its stream was sent, so it can be made again, unless it has rows to
//! send that may have been deleted from the tables since. Beside the rows that
//! were not sent, those are sent that were written since the first snapshot was taken. So it does
//! where publication, tables or partitions were altered meanwhile, since rows may then be in
//! neither snapshot nor stream.

mod rows;
mod work;

use std::io;

use relay::{
    Case, Code, Failure, Lsn,
    handover::backfill::{BackfilledRows, Before, Beginning, Reached, Todo, unfinished},
    source::Catalog,
    witness::ProducedTo,
};
use tokio_postgres::Client;

use super::{TaskError, Terminal, first::Divided, slot::ExistingSlot};
use crate::{
    cli::{
        BadRow, DroppedSlot, OlderRows,
        backlog::Backlog,
        connect::{lacks, with_connection},
        new_slot,
        noted_left_out::{MissingNotes, make_left_out},
        person,
        print_failure::print_failure,
        republication::{OutboxRows, check_kept, session},
        witness::Records,
    },
    config::Config,
    kafka::StoredOffsets,
    monitor::catalog::with_partitions_of_snapshot,
    postgres::quote_table,
    prepare,
    republish::{
        journal::{self, BACKFILL as COMMAND, Completeness, PastRun, Run, Subject},
        sender::Ended,
    },
    shell::{SlotCreator, SlotHolder, Source},
    wording,
};
pub(super) use work::Backfill;

/// What became of it.
pub(super) enum Backfilled {
    /// All rows were sent, by this process or an earlier one, to these topics.
    Complete(Option<Box<DividedSlot>>, ProducedTo),
    /// It has to be gone on with.
    Stopped,
}

/// The slot that a process has made, which stays held until this is dropped.
pub(super) struct DividedSlot {
    pub(super) holder: SlotHolder,
    before: Catalog,
}

impl DividedSlot {
    /// The reading that its witness is compared with.
    pub(super) const fn divided(&self) -> Divided<'_> {
        Divided { before: &self.before, altered: Case::BackfillAltered }
    }
}

/// Refuses to leave rows of an interrupted back-fill behind, and a role that could not note which
/// rows it sends.
///
/// # Errors
/// A back-fill is not complete, the role lacks a privilege, or this cannot be read.
pub(super) async fn refuse_unready(
    rows: OlderRows,
    mut client: &Client,
    config: &Config,
    slot: Option<&ExistingSlot>,
) -> Result<(), TaskError> {
    if rows == OlderRows::Send {
        let grants = journal::missing_grants(client).await?;
        if grants.is_empty() {
            return Ok(());
        }
        let what = "the role may not note in outbox_router.republication which rows it sends";
        return Err(lacks(what.to_owned(), &grants).into());
    }
    let position = slot.map(ExistingSlot::lsn);
    let (pipeline, slot) = (config.name.as_str(), config.postgres.slot.as_str());
    match journal::unfinished_backfill(&mut client, pipeline, slot).await? {
        None => Ok(()),
        // Kafka may not be asked, and `--backfill` asks it.
        Some(run) => Err(unfinished(&run, slot, position, Beginning::Unwitnessed).into()),
    }
}

fn subject<'s>(config: &'s Config, selection: &'s str) -> Subject<'s> {
    let (pipeline, slot) = (config.name.as_str(), config.postgres.slot.as_str());
    Subject { pipeline, slot, command: COMMAND, selection }
}

impl Backfill<'_> {
    /// Sends the rows.
    ///
    /// # Errors
    /// The slot does not divide the rows any more, or a server refuses something.
    pub(super) async fn carry_out(
        &self,
        slot: Option<&ExistingSlot>,
        terminal: &mut Terminal<'_>,
    ) -> Result<Backfilled, TaskError> {
        let beginning = self.beginning().await?;
        let done = with_connection(self.access, COMMAND, async |books| {
            books.batch_execute(&session()).await?;
            if let Err(holder) = journal::lock(books, &self.config.name).await? {
                writeln!(terminal.err, "error: nothing was sent: {holder}")?;
                return Ok(Backfilled::Stopped);
            }
            journal::make(books).await?;
            if let Some(router) = self.access.role_of_router() {
                journal::let_router_read(books, &router).await;
            }
            if self.args.backfill.bad == BadRow::Skip {
                make_left_out(books, self.config, self.access, MissingNotes::Refused).await?;
            }
            // What is refused is refused before anything is made.
            self.describe(books).await?;
            self.check_condition(books).await?;
            let selection = self.selection();
            let subject = subject(self.config, &selection);
            let last = journal::last(books, subject).await?;
            let source = prepare::source(self.config, self.access.endpoint(COMMAND)?);
            let creator = new_slot::connect(&source).await?;
            let before = Before {
                slot: subject.slot,
                system_id: Some(creator.system_id()),
                position: slot.map(ExistingSlot::lsn),
                beginning,
                last: last.as_ref(),
                selection: &selection,
            };
            let todo = before.todo()?;
            if todo != Todo::Nothing
                && let Some(slot) = slot
            {
                self.check_former(books, &source, (slot, &before), terminal).await?;
            }
            let (run, reached) = match (todo, &last) {
                (Todo::Nothing, _) => {
                    writeln!(terminal.out, "back-fill: complete already")?;
                    let reached = last.as_ref().and_then(Reached::of);
                    let topics = reached.map(|reached| reached.topics);
                    return Ok(Backfilled::Complete(None, topics.unwrap_or_default()));
                }
                (Todo::Resume(reached), Some(run)) => {
                    (resume(books, run, terminal.out).await?, reached)
                }
                (Todo::Begin | Todo::Resume(_), past) => {
                    (self.begin(books, subject, past.as_ref()).await?, None)
                }
            };
            let before = source.catalog(None).await?;
            if slot.is_some() {
                new_slot::drop_former(books, &source).await?;
            }
            let settled = last.filter(|last| last.id == run.id()).map_or(0, |last| last.settled);
            let new = (&source, creator, before);
            Box::pin(self.with_new_slot(new, run, (settled, reached), terminal)).await
        });
        Box::pin(done).await
    }

    /// Begins a run, and gives an earlier one up.
    async fn begin<'b>(
        &self,
        books: &'b Client,
        subject: Subject<'_>,
        past: Option<&PastRun>,
    ) -> Result<Run<'b>, Failure> {
        if let Some(past) = past.filter(|past| past.completeness == Completeness::Partial) {
            let given_up = "given up: another run began";
            Run::resume(books, past).end(given_up, Completeness::GivenUp).await?;
        }
        let by = person::current(self.access.environment);
        Run::begin(books, subject, &by, None).await
    }

    /// Refuses to drop a slot that has rows to send, unless it may be dropped: those that were
    /// deleted from the tables since are in no snapshot.
    ///
    /// # Errors
    /// It has some, or may have; transactions that write do not end.
    async fn check_former(
        &self,
        books: &Client,
        source: &Source,
        (former, before): (&ExistingSlot, &Before<'_>),
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        if self.args.backfill.dropped == DroppedSlot::Any || former.is_lost() {
            return Ok(());
        }
        let (slot, publication) = (source.slot.as_str(), source.publication.as_str());
        new_slot::end_dead_run(books, source).await?;
        new_slot::wait_for_open(books, slot, self.args.wait, terminal.out).await?;
        let backlog = Backlog::of(books, slot, publication).await;
        let needed = backlog.only_there(slot, &former.position);
        needed.map_or(Ok(()), |what| Err(before.slot_needed(what).into()))
    }

    /// Has the server read the condition, before anything is made.
    async fn check_condition(&self, client: &Client) -> Result<(), TaskError> {
        let Some(condition) = &self.args.backfill.condition else { return Ok(()) };
        for table in self.tables {
            // A comment at its end does not reach the parenthesis.
            let query = format!("select from {} where ({condition}\n) limit 0", quote_table(table));
            client.query(&query, &[]).await?;
        }
        Ok(())
    }

    /// Whether a router has run, or set-up was completed, as far as a witness is kept.
    async fn beginning(&self) -> Result<Beginning, Failure> {
        let Some(records) = Records::of(self.config, self.access)? else {
            return Ok(Beginning::NotKept);
        };
        let witness = records.read().await?.witness;
        Ok(witness.map_or(Beginning::Unwitnessed, |_| Beginning::Witnessed))
    }

    /// Which rows are sent, in one form for the same rows.
    fn selection(&self) -> String {
        let tables: Vec<String> = self.tables.iter().map(ToString::to_string).collect();
        let condition = self.args.backfill.condition.as_deref();
        let condition = condition.map(|text| text.trim().to_owned());
        BackfilledRows { tables, condition }.selection()
    }

    async fn with_new_slot(
        &self,
        (source, creator, before): (&Source, SlotCreator, Catalog),
        run: Run<'_>,
        (settled, reached): (i64, Option<Reached>),
        terminal: &mut Terminal<'_>,
    ) -> Result<Backfilled, TaskError> {
        let Self { args, access, version, .. } = *self;
        let (slot, system_id) = (creator.slot().to_owned(), creator.system_id().to_owned());
        // Everything is ready before the slot exists: until it is held, a router could take it.
        with_connection(access, COMMAND, async |reader| {
            reader.batch_execute(&session()).await?;
            let rows = self.describe(reader).await?;
            let command = (access, COMMAND);
            let made = new_slot::create(command, creator, version, args.wait, terminal.out);
            let made = Box::pin(made).await?;
            let begins_at = made.begins_at().unwrap_or(Lsn::ZERO);
            let mut holder = new_slot::import(reader, made, Case::BackfillTooLate).await?;
            let before = with_partitions_of_snapshot(&mut &*reader, version, before).await?;
            writeln!(terminal.out, "slot {slot}: created at {begins_at}")?;
            let (slot_at, read_as) = (begins_at.to_string(), OutboxRows::read_as(&rows));
            let reached = match reached {
                Some(reached) => Reached { system_id, slot_at, ..reached }.reading_as(read_as),
                None => {
                    let first_xmin = rows::snapshot_xmin(reader).await?;
                    let (table, order, topics) = (None, None, ProducedTo::default());
                    Reached { system_id, slot_at, first_xmin, read_as, table, order, topics }
                }
            };
            run.note(&reached.place()).await?;
            let work = rows::Sending { backfill: self, reader, run: &run, reached: &reached };
            let topics = reached.topics.clone();
            let mut done = rows::Done { settled, topics, stored: StoredOffsets::default() };
            let ended = {
                let sending = Box::pin(work.send(&rows, &mut done, terminal));
                tokio::select! {
                    ended = sending => ended?,
                    failure = holder.lost() => Ended::Failed(Box::new(failure)),
                }
            };
            let slot = DividedSlot { holder, before };
            let ended = match ended {
                Ended::Complete => {
                    let altered = check_unaltered(source, reader, &rows, slot.divided()).await?;
                    let gone = check_kept(&done.stored, self.config).await.err();
                    altered.or(gone).map_or(Ended::Complete, |it| Ended::Failed(Box::new(it)))
                }
                ended @ (Ended::Interrupted | Ended::AtRow(_) | Ended::Failed(_)) => ended,
            };
            // Sequence numbers that a broker does not know may be those of one taken back.
            if let Ended::Failed(failure) = &ended
                && (failure.case == Some(Case::KafkaTakenBack)
                    || failure.code == Code::ProducerFatal)
            {
                // What earlier processes of this run have sent may be gone, too.
                let (table, order, topics) = (None, None, ProducedTo::default());
                run.note(&Reached { table, order, topics, ..reached }.place()).await?;
            }
            if note_end(&run, &ended, terminal.err).await? == Completeness::Complete {
                return Ok(Backfilled::Complete(Some(Box::new(slot)), done.topics));
            }
            Ok(Backfilled::Stopped)
        })
        .await
    }

    /// The last run goes on after all: what it has divided was altered before there was a witness.
    ///
    /// # Errors
    /// It cannot be noted.
    pub(super) async fn reopen(&self) -> Result<(), TaskError> {
        let selection = self.selection();
        with_connection(self.access, COMMAND, async |books| {
            if let Some(run) = journal::last(books, subject(self.config, &selection)).await? {
                Run::resume(books, &run).end("altered meanwhile", Completeness::Partial).await?;
            }
            Ok(())
        })
        .await
    }
}

/// Goes on with a run; one that is complete is not any more, since it has no witness.
async fn resume<'b>(
    books: &'b Client,
    past: &PastRun,
    out: &mut (dyn io::Write + Send),
) -> Result<Run<'b>, TaskError> {
    let PastRun { id, settled, completeness, .. } = past;
    let run = Run::resume(books, past);
    if *completeness == Completeness::Complete {
        run.end("without its witness", Completeness::Partial).await?;
    }
    let settled = wording::count(*settled, "row");
    writeln!(out, "back-fill: goes on with run {id}, which had settled {settled}")?;
    Ok(run)
}

/// Why rows may be in neither the snapshot that was read nor the slot's stream.
async fn check_unaltered(
    source: &Source,
    reader: &Client,
    rows: &[OutboxRows],
    divided: Divided<'_>,
) -> Result<Option<Failure>, TaskError> {
    let tables: Vec<u32> = rows.iter().map(|rows| rows.row.oid).collect();
    if let Some(what) = new_slot::rewritten(reader, &tables).await? {
        return Ok(Some(divided.failure(&what)));
    }
    let now = source.catalog(Some(divided.before)).await?;
    Ok(divided.check(&now).err())
}

/// Notes how a run has ended, and says it.
async fn note_end(
    run: &Run<'_>,
    ended: &Ended,
    err: &mut (dyn io::Write + Send),
) -> Result<Completeness, TaskError> {
    let end = match ended {
        Ended::Complete => Completeness::Complete,
        Ended::Interrupted | Ended::AtRow(_) | Ended::Failed(_) => Completeness::Partial,
    };
    match ended {
        Ended::Complete => run.end("complete", end).await?,
        Ended::Interrupted => {
            run.end("interrupted", end).await?;
            report_stop("stopped by Ctrl-C", None, err)?;
        }
        Ended::AtRow(failure) | Ended::Failed(failure) => {
            // What has stopped it may be that PostgreSQL does not answer.
            drop(run.end(&format!("failed: {failure:#}"), end).await);
            report_stop("stopped", Some(failure), err)?;
        }
    }
    Ok(end)
}

fn report_stop(
    how: &str,
    failure: Option<&Failure>,
    err: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    if let Some(failure) = failure {
        print_failure(err, failure)?;
    }
    writeln!(
        err,
        "back-fill: {how} before all rows were sent; the same command goes on, and until it is \
         complete no router may run"
    )
}
