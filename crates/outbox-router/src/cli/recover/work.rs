//! The steps of the command.

use std::io;

use relay::{
    source::Gap,
    witness::{OpenFinding, Recovered},
};
use serde_json::json;
use tokio::time::Instant;

use super::{
    args::RecoveredRows,
    recovery::{COMMAND, Recovery, names, others_open, print_others},
    refusals::{self, Prospect},
    report::{self, Found, OfTable, Plan, Scope},
    send::Sending,
    since::{self, Start},
    slot::{self, Former, Prepared},
    table::{Compared, is_held_readable},
    topics::{MAKE_SEEN, SEEN, Topics},
};
use crate::{
    cli::{
        Confirmation, Exit, Form, TaskError, Terminal, accept,
        decision_args::{Decider, Effect},
        republication::{BEGIN, OutboxRows, Progress, place},
        witness::recoverable_gaps,
    },
    republish::{
        journal::{self, Completeness, PastRun, Run, Subject},
        selection::Query,
        sender::Ended,
    },
    shell::SlotHolder,
};

impl Recovery<'_> {
    pub(super) async fn carry_out(&self, terminal: &mut Terminal<'_>) -> Result<Exit, TaskError> {
        let found = since::find(self.reader, self.args, self.gaps, self.witness).await?;
        let from = match found {
            Ok(from) => from,
            Err(why) => {
                writeln!(terminal.err, "error: {why}")?;
                return Ok(Exit::Usage);
            }
        };
        let tables = self.describe().await?;
        // Nothing is to be changed where rows could not be compared afterwards.
        let topics = self.topics(&tables, &from).await?;
        refusals::check_temporary(self).await?;
        let prospect = refusals::look(self).await?;
        let is_dry = self.args.decision.how.effect == Effect::Dry;
        let plan = Plan {
            gaps: self.gaps,
            from: &from,
            tables: self.tables,
            topics: topics.as_ref(),
            slot: &self.source.slot,
        };
        let is_text = self.args.decision.form == Form::Text;
        if is_text {
            plan.show(self.args, terminal.out)?;
        }
        let Prospect { interrupted, former, refusals } = prospect;
        let is_refused = !refusals.is_empty();
        if is_refused && !is_dry {
            report::refusals(&refusals, terminal.err)?;
            return Ok(Exit::Failure);
        }
        self.reader.batch_execute(MAKE_SEEN).await?;
        let is_asked = self.args.decision.how.confirmation == Confirmation::Ask;
        if is_dry || (is_asked && is_text) {
            // A person decides by the figures; nobody who reads them later needs them twice.
            let mut found = self.compare_now(&tables, &from, topics, terminal).await?;
            found.refused(&refusals);
            report::found(&found, self.args.decision.form, terminal.out)?;
        }
        if is_dry {
            report::refusals(&refusals, terminal.err)?;
            return Ok(if is_refused { Exit::Failure } else { Exit::Done });
        }
        if let (true, Some(former)) = (is_text, &former) {
            report::show_consequence(&self.source.slot, former, terminal.out)?;
        }
        let words = match &former {
            Some(Former::Missing) => ("make it anew and send the missing rows", "changed"),
            Some(_) | None => ("drop it, make it anew and send the missing rows", "changed"),
        };
        if let Some(refused) = self.args.decision.confirm(self.config, words, terminal)? {
            return Ok(refused);
        }
        // How long a person thinks is no part of it.
        let begun = if is_asked { Instant::now() } else { self.begun };
        self.check_unchanged().await?;
        let run = self.begin(interrupted.as_ref()).await?;
        self.real((&tables, &from), (interrupted.as_ref(), &run), begun, terminal).await
    }

    /// A run that did not come to its end.
    pub(super) async fn interrupted(&self) -> Result<Option<PastRun>, TaskError> {
        if !journal::exists(self.books).await? {
            return Ok(None);
        }
        let unfinished = journal::unfinished(self.books, self.subject("")).await?;
        Ok(unfinished.into_iter().next())
    }

    fn subject<'s>(&'s self, selection: &'s str) -> Subject<'s> {
        let (pipeline, slot) = (self.config.name.as_str(), self.config.postgres.slot.as_str());
        Subject { pipeline, slot, command: COMMAND, selection }
    }

    /// Notes who does it, or goes on with a run that was interrupted.
    async fn begin(&self, interrupted: Option<&PastRun>) -> Result<Run<'_>, TaskError> {
        journal::make(self.books).await?;
        if let Some(interrupted) = interrupted {
            return Ok(Run::resume(self.books, interrupted));
        }
        let tables: Vec<String> = self.tables.iter().map(ToString::to_string).collect();
        let selection = json!({ "tables": tables, "gaps": names(self.gaps) }).to_string();
        let Decider { by, reason } = self.args.decision.decider(self.access.environment);
        Ok(Run::begin(self.books, self.subject(&selection), &by, reason).await?)
    }

    /// The tables, and what is needed of them.
    async fn describe(&self) -> Result<Vec<Compared>, TaskError> {
        is_held_readable(self.reader).await?;
        let mut tables = Vec::with_capacity(self.tables.len());
        for (number, name) in (0..).zip(self.tables) {
            let rows = OutboxRows::describe(self.reader, self.config, name).await?;
            let table = Compared::check(self.reader, self.args, rows, number).await?;
            table.since(self.config, &Start::default())?;
            tables.push(table);
        }
        Ok(tables)
    }

    /// What is to be read of the topics; `None` where nothing is compared.
    async fn topics(&self, tables: &[Compared], from: &Start) -> Result<Option<Topics>, TaskError> {
        match self.args.selected {
            RecoveredRows::All => Ok(None),
            RecoveredRows::Missing => {
                let topics = Topics::find(self.config, tables, from).await?;
                topics.check(from, self.args.ids, self.gaps)?;
                Ok(Some(topics))
            }
        }
    }

    /// A person may take long to answer.
    async fn check_unchanged(&self) -> Result<(), TaskError> {
        let facts = accept::read_when_idle(self.config, self.records, self.source).await?;
        if names(&recoverable_gaps(&facts.witness)) == names(self.gaps) {
            return Ok(());
        }
        Err(accept::changed().into())
    }

    /// Compares with the rows as they are now. Nothing of it stays.
    async fn compare_now(
        &self,
        tables: &[Compared],
        from: &Start,
        topics: Option<Topics>,
        terminal: &mut Terminal<'_>,
    ) -> Result<Found, TaskError> {
        let begun = Instant::now();
        self.reader.batch_execute(BEGIN).await?;
        let mut found = self.found(from);
        self.read(topics, &mut found, terminal).await?;
        for table in tables {
            found.tables.push(self.compare(table, from).await?.0);
        }
        self.reader.batch_execute("rollback").await?;
        found.took = begun.elapsed();
        Ok(found)
    }

    async fn real(
        &self,
        (tables, from): (&[Compared], &Start),
        (interrupted, run): (Option<&PastRun>, &Run<'_>),
        begun: Instant,
        terminal: &mut Terminal<'_>,
    ) -> Result<Exit, TaskError> {
        let form = self.args.decision.form;
        let mut found = self.found(from);
        let notes: &mut (dyn io::Write + Send) = match form {
            Form::Text => terminal.out,
            Form::Json => terminal.err,
        };
        let prepared = slot::prepare(self, notes).await?;
        let renewed = Box::pin(slot::renew(self, (interrupted, run), notes)).await;
        let (mut holder, slot_at) = renewed?;
        found.slot_at = Some(slot_at);
        let ended =
            self.send_and_close((tables, from), (&mut holder, &prepared), &mut found, terminal);
        let ended = Box::pin(ended).await;
        drop(holder);
        found.took = begun.elapsed();
        let (outcome, completeness) = match &ended {
            Ok(Ended::Complete) => ("complete", Completeness::Complete),
            Ok(Ended::Interrupted) => ("interrupted", Completeness::Partial),
            Ok(Ended::AtRow(_) | Ended::Failed(_)) | Err(_) => ("failed", Completeness::Partial),
        };
        // What has stopped it may be that PostgreSQL does not answer.
        let mut outcome = found.outcome(outcome);
        if interrupted.is_some() {
            // How many those were, nobody has counted: they are in the topics.
            outcome.push_str("; a run that was interrupted before has sent others");
        }
        let noted = run.end(&outcome, completeness).await;
        report::found(&found, form, terminal.out)?;
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                report::interrupted("stopped", terminal.err)?;
                return Err(error);
            }
        };
        report::ended(&ended, terminal.err)?;
        if !found.is_closed {
            return Ok(Exit::Failure);
        }
        noted?;
        let others = others_open(self.witness, self.gaps);
        print_others(&others, terminal.err)?;
        Ok(Exit::Done)
    }

    async fn send_and_close(
        &self,
        (tables, from): (&[Compared], &Start),
        (holder, prepared): (&mut SlotHolder, &Prepared),
        found: &mut Found,
        terminal: &mut Terminal<'_>,
    ) -> Result<Ended, TaskError> {
        let ended = {
            let sending = Box::pin(self.send_all((tables, from), found, terminal));
            tokio::select! {
                ended = sending => ended?,
                failure = holder.lost() => Ended::Failed(Box::new(failure)),
            }
        };
        if matches!(ended, Ended::Complete) {
            self.close(holder, prepared, found).await?;
            found.is_closed = true;
        }
        Ok(ended)
    }

    fn found(&self, from: &Start) -> Found {
        Found::new(names(self.gaps), from, self.args)
    }

    /// Compares and sends, table by table.
    async fn send_all(
        &self,
        (tables, from): (&[Compared], &Start),
        found: &mut Found,
        terminal: &mut Terminal<'_>,
    ) -> Result<Ended, TaskError> {
        // Once more: what was written until the slot was dropped has to be seen.
        let topics = self.topics(tables, from).await?;
        let read = self.read(topics, found, terminal);
        if unless_interrupted(read).await?.is_none() {
            return Ok(Ended::Interrupted);
        }
        for table in tables {
            let Some(compared) = unless_interrupted(self.compare(table, from)).await? else {
                return Ok(Ended::Interrupted);
            };
            let (mut of_table, query) = compared;
            let sending = Sending { recovery: self, table, query: &query };
            let total = of_table.to_send();
            let ended = sending.send(total, &mut of_table, terminal).await?;
            found.tables.push(of_table);
            if !matches!(ended, Ended::Complete) {
                return Ok(ended);
            }
        }
        Ok(Ended::Complete)
    }

    /// Reads the topics, where rows are compared with them.
    async fn read(
        &self,
        topics: Option<Topics>,
        found: &mut Found,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        let Some(topics) = topics else { return Ok(()) };
        found.topics = topics.count();
        let place = place(terminal.audience, self.args.decision.form);
        let progress = Progress::of((topics.offsets(), "records read"), terminal.err, place);
        let read = topics.read(self.reader, progress).await?;
        found.read = read;
        Ok(read.check()?)
    }

    /// What is missing of a table, and the rows that are to be sent.
    async fn compare(&self, table: &Compared, from: &Start) -> Result<(OfTable, Query), TaskError> {
        let count = async |query: &Query| {
            let row = self.reader.query_one(&query.count(), &[]).await?;
            Ok::<_, TaskError>(row.try_get::<_, i64>(0)?.unsigned_abs())
        };
        let all = table.since(self.config, from)?;
        let rows = count(&all).await?;
        let oldest = table.oldest(self.reader).await?;
        let (missing, without_row) = match self.args.selected {
            RecoveredRows::All => (all, None),
            RecoveredRows::Missing => {
                let without_row = table.without_row(self.reader, (&all, from), SEEN).await?;
                (table.missing(&all, SEEN), Some(without_row))
            }
        };
        let missing_count = count(&missing).await?;
        let undecided = table.without_decided(self.reader, self.config, (&missing, from)).await?;
        let (query, decided) = match undecided {
            None => (missing, 0),
            Some(query) => {
                let left = count(&query).await?;
                (query, missing_count.saturating_sub(left))
            }
        };
        let of_table = OfTable {
            table: table.rows.row.table.clone(),
            rows,
            missing: missing_count,
            decided,
            without_row,
            oldest,
            scope: if table.is_whole() { Scope::Whole } else { Scope::Since },
            sent: None,
        };
        Ok((of_table, query))
    }

    /// Closes the gaps, with the figures. The slot is still held.
    async fn close(
        &self,
        holder: &SlotHolder,
        prepared: &Prepared,
        found: &Found,
    ) -> Result<(), TaskError> {
        let facts =
            accept::read_facts(self.config, self.records, self.source, holder.pid()).await?;
        // While no router has written them down, a new slot gives them another code.
        let facts = facts.with_shown(self.gaps);
        // Rows that a publication leaves out for a while are in neither snapshot nor stream.
        if facts.reading.catalog != prepared.catalog {
            return Err(accept::changed().into());
        }
        let open = recoverable_gaps(&facts.witness);
        let known = names(self.gaps);
        // Everything that was committed since the first of them was compared, and publication and
        // tables have not changed since: what else is found of that time, such as that the slot or
        // the publication was made anew, hides no row.
        let first = self.gaps.iter().map(|gap| gap.interval.begins_at()).min();
        let is_compared = |gap: &Gap| {
            let begins_at = gap.interval.from.as_ref().map(|from| from.lsn);
            known.contains(&gap.name()) || begins_at.is_some_and(|lsn| Some(lsn) >= first)
        };
        if !open.iter().all(is_compared) {
            return Err(accept::changed().into());
        }
        let open: Vec<OpenFinding> = open.into_iter().map(OpenFinding::Gap).collect();
        let by = self.args.decision.decider(self.access.environment).by;
        let next = facts.closed(self.config, &open, &by)?.with_recovered(Recovered {
            rows: found.tables.iter().map(OfTable::to_send).sum(),
            records: found.tables.iter().map(OfTable::records).sum(),
        });
        Ok(self.records.write(COMMAND, &next).await?)
    }
}

/// What is done, unless a person ends it by Ctrl-C.
async fn unless_interrupted<T>(
    work: impl Future<Output = Result<T, TaskError>>,
) -> Result<Option<T>, TaskError> {
    tokio::select! {
        biased;
        done = work => done.map(Some),
        _ = tokio::signal::ctrl_c() => Ok(None),
    }
}
