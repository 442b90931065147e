//! The steps of the command.

use std::io;

use relay::{
    Case, Failure,
    delivered::{
        AgeColumn,
        compared::{ClosedGap, Compared, Figures, FilteredRows, altered, was_compared},
    },
    row_columns,
    source::{Catalog, Gap},
    witness::OpenFinding,
};
use serde_json::json;
use tokio::time::Instant;

use super::{
    args::{FilteredChoice, IdTrust, RecoveredRows},
    decided,
    own_topics::{self, Others},
    recovery::{COMMAND, Recovery, names, others_open, print_others},
    refusals::{self, Prospect},
    report::{self, Found, OfRecords, OfTable, Plan},
    seen::MAKE_SEEN,
    send::Sending,
    since::{self, Start},
    slot::{self, Former, Prepared},
    table::{ComparedTable, count_of, is_held_readable, may_be_given_again},
    topics::{TopicNumbers, Topics},
    uncompared::{check_outboxes, check_partitions},
};
use crate::{
    cli::{
        Confirmation, Exit, Form, TaskError, Terminal, accept,
        decision_args::{Decider, Effect},
        new_slot,
        noted_left_out::{MissingNotes, make_left_out},
        replay::BadRow,
        republication::{BEGIN, OutboxRows, Progress, check_kept, place},
        topic_ranges::Range,
        witness::recoverable_gaps,
    },
    held,
    republish::{
        journal::{self, Completeness, PastRun, Run, Subject},
        left_out,
        selection::Query,
        sender::Ended,
    },
    shell::SlotHolder,
    wording,
};

impl Recovery<'_> {
    pub(super) async fn carry_out(&self, terminal: &mut Terminal<'_>) -> Result<Exit, TaskError> {
        let of = (self.gaps, self.witness);
        let found = since::find(self.reader, self.args, of, self.reading).await?;
        let mut from = match found {
            Ok(from) => from,
            Err(why) => {
                writeln!(terminal.err, "error: {why}")?;
                return Ok(Exit::Usage);
            }
        };
        let tables = self.describe(&from).await?;
        self.reach_back(&tables, &mut from).await?;
        // Nothing is to be changed where rows could not be compared afterwards.
        let topics = self.topics(&tables, &from).await?;
        refusals::check_temporary(self).await?;
        let prospect = refusals::look(self, from.first).await?;
        let is_dry = self.args.decision.how.effect == Effect::Dry;
        let plan = Plan {
            gaps: self.gaps,
            from: &from,
            tables: self.tables,
            topics: topics.as_ref(),
            slot: &self.source.slot,
            has_filter: self.config.outboxes().tables.iter().any(|table| table.filter.is_some()),
        };
        let is_text = self.args.decision.form == Form::Text;
        if is_text {
            plan.show(self.args, terminal.out)?;
        }
        if let Some(topics) = plan.topics {
            report::begun_later(&topics.begun_later, terminal.err)?;
        }
        let Prospect { interrupted, former, dropped, refusals } = prospect;
        report::dropped(&dropped, terminal.err)?;
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
        self.open_gaps().await?;
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
        if self.args.bad == BadRow::Skip {
            make_left_out(self.books, self.config, self.access, MissingNotes::AreGap).await?;
        }
        if let Some(interrupted) = interrupted {
            return Ok(Run::resume(self.books, interrupted));
        }
        let tables: Vec<String> = self.tables.iter().map(ToString::to_string).collect();
        let given_up: Vec<String> = self.args.given_up.iter().map(ToString::to_string).collect();
        let selection = json!({
            "tables": tables,
            "gaps": names(self.gaps),
            "given_up": given_up,
            "filtered": self.args.filtered.map(FilteredChoice::as_str),
        });
        let selection = selection.to_string();
        let Decider { by, reason } = self.args.decision.decider(self.access.environment);
        Ok(Run::begin(self.books, self.subject(&selection), &by, reason).await?)
    }

    /// The tables, and what is needed of them.
    async fn describe(&self, from: &Start) -> Result<Vec<ComparedTable>, TaskError> {
        if is_held_readable(self.reader).await? {
            let source = (self.config.name.as_str(), self.source.slot.as_str());
            held::check_own(self.reader, source, &self.reading.server.history).await?;
        }
        let mut tables = Vec::with_capacity(self.tables.len());
        for (number, name) in (0..).zip(self.tables) {
            let rows = OutboxRows::describe(self.reader, self.config, name).await?;
            let of = (from, self.gaps);
            let mut table =
                ComparedTable::check(self.reader, (self.args, self.config), (rows, number), of)
                    .await?;
            let rows = table.in_scope(self.config)?;
            if may_be_given_again(self.gaps) {
                table.doubt_made_ids(self.reader, rows).await?;
            }
            tables.push(table);
        }
        Ok(tables)
    }

    /// Rows whose transactions are later than the gap's first may say that they are older.
    async fn reach_back(
        &self,
        tables: &[ComparedTable],
        from: &mut Start,
    ) -> Result<(), TaskError> {
        for table in tables {
            let rows = table.in_scope(self.config)?;
            from.reach_back(table.oldest_ms(self.reader, &rows).await?);
        }
        Ok(())
    }

    /// What is to be read of the topics; `None` where nothing is compared.
    async fn topics(
        &self,
        tables: &[ComparedTable],
        from: &Start,
    ) -> Result<Option<Topics>, TaskError> {
        match self.args.selected {
            RecoveredRows::All => Ok(None),
            RecoveredRows::Missing => {
                let required = self.required(&self.reading.catalog);
                let topics = Topics::find(self.config, (tables, &required), from).await?;
                topics.check(from, self.args.ids, self.gaps)?;
                Ok(Some(topics))
            }
        }
    }

    /// Checks that no other gaps were found while a person was asked, and notes those in the
    /// witness that no router has: once the slot is made, neither shows them, and a command that is
    /// killed then has to leave them open.
    async fn open_gaps(&self) -> Result<(), TaskError> {
        let facts = accept::read_when_idle(self.config, self.records, self.source).await?;
        if names(&recoverable_gaps(&facts.witness)) != names(self.gaps) {
            return Err(altered_meanwhile("other gaps are open than were shown").into());
        }
        match facts.recorded.with_open(&facts.witness.gaps) {
            Some(next) => Ok(self.records.write(COMMAND, &next).await?),
            None => Ok(()),
        }
    }

    /// Compares with the rows as they are now. Nothing of it stays.
    async fn compare_now(
        &self,
        tables: &[ComparedTable],
        from: &Start,
        topics: Option<Topics>,
        terminal: &mut Terminal<'_>,
    ) -> Result<Found, TaskError> {
        let begun = Instant::now();
        self.reader.batch_execute(BEGIN).await?;
        let mut found = self.found(from);
        let numbers = self.read(topics, &mut found, terminal).await?;
        for table in tables {
            found.tables.push(self.compare(table, from, &numbers).await?.0);
        }
        self.reader.batch_execute("rollback").await?;
        found.took = begun.elapsed();
        Ok(found)
    }

    async fn real(
        &self,
        (tables, from): (&[ComparedTable], &Start),
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
        // A person may take long to answer.
        check_outboxes(self, &prepared.catalog)?;
        check_partitions(self, &prepared.catalog, from.first).await?;
        let renewed = Box::pin(slot::renew(self, prepared, notes)).await;
        let (mut holder, slot_at, prepared) = renewed?;
        found.slot_at = Some(slot_at);
        let of = (tables, from, run);
        let ended = self.send_and_close(of, (&mut holder, &prepared), &mut found, terminal);
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
        report::ended(&ended, self, terminal.err)?;
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
        of: (&[ComparedTable], &Start, &Run<'_>),
        (holder, prepared): (&mut SlotHolder, &Prepared),
        found: &mut Found,
        terminal: &mut Terminal<'_>,
    ) -> Result<Ended, TaskError> {
        let ended = {
            let sending = Box::pin(self.send_all(of, found, terminal));
            tokio::select! {
                ended = sending => ended?,
                failure = holder.lost() => Ended::Failed(Box::new(failure)),
            }
        };
        if matches!(ended, Ended::Complete) {
            let read: Vec<u32> = of.0.iter().map(|table| table.rows.row.oid).collect();
            if let Some(what) = new_slot::rewritten(self.reader, &read).await? {
                return Err(altered_meanwhile(&what).into());
            }
            let closed = self.nothing_missing(found, prepared)?;
            check_kept(&found.stored, self.config).await?;
            self.close(holder, prepared, &closed).await?;
            found.is_closed = true;
        }
        Ok(ended)
    }

    fn found(&self, from: &Start) -> Found {
        Found::new(names(self.gaps), Some(from), self.args)
    }

    /// Compares and sends, table by table.
    async fn send_all(
        &self,
        (tables, from, run): (&[ComparedTable], &Start, &Run<'_>),
        found: &mut Found,
        terminal: &mut Terminal<'_>,
    ) -> Result<Ended, TaskError> {
        // Once more: what was written until the slot was dropped has to be seen.
        let topics = self.topics(tables, from).await?;
        let read = self.read(topics, found, terminal);
        let Some(numbers) = unless_interrupted(read).await? else {
            return Ok(Ended::Interrupted);
        };
        for table in tables {
            let compared = self.compare(table, from, &numbers);
            let Some(compared) = unless_interrupted(compared).await? else {
                return Ok(Ended::Interrupted);
            };
            let (mut of_table, query) = compared;
            let sending = Sending { recovery: self, table, query: &query, run };
            let total = of_table.to_send();
            let ended = sending.send(total, (&mut of_table, &mut found.stored), terminal).await?;
            found.tables.push(of_table);
            if !matches!(ended, Ended::Complete) {
                return Ok(ended);
            }
        }
        Ok(Ended::Complete)
    }

    /// Reads the topics, where rows are compared with them. Returns their numbers.
    async fn read(
        &self,
        topics: Option<Topics>,
        found: &mut Found,
        terminal: &mut Terminal<'_>,
    ) -> Result<TopicNumbers, TaskError> {
        let Some(topics) = topics else { return Ok(TopicNumbers::default()) };
        let numbers = topics.numbers();
        found.topics = topics.count();
        for Range { topic, partition, to, .. } in &topics.ranges {
            found.stored.read_to(topic, *partition, *to)?;
        }
        let place = place(terminal.audience, self.args.decision.form);
        let progress = Progress::of((topics.offsets(), "records read"), terminal.err, place);
        let read = topics.read(self.reader, progress).await?;
        found.read = read;
        read.check()?;
        Ok(numbers)
    }

    /// What is missing of a table, and the rows that are to be sent.
    async fn compare(
        &self,
        table: &ComparedTable,
        from: &Start,
        topics: &TopicNumbers,
    ) -> Result<(OfTable, Query), TaskError> {
        let all = table.in_scope(self.config)?;
        let rows = count_of(self.reader, &all).await?;
        let oldest = table.oldest(self.reader).await?;
        let (missing, of_records) = match self.args.selected {
            RecoveredRows::All => (all, None),
            RecoveredRows::Missing => {
                let of = (table, &all);
                let others =
                    own_topics::forget_copies(self.reader, self.config, of, topics).await?;
                check_differing(table, others, self.args.ids)?;
                let without_row = table.without_row(self.reader, (&all, from)).await?;
                (table.missing(&all), Some(OfRecords { others, without_row }))
            }
        };
        let missing_count = count_of(self.reader, &missing).await?;
        let (of, args) = ((table, &missing, missing_count), (self.args, self.config));
        let here = &self.reading.server.history;
        let divided = decided::divided(self.reader, args, of, (self.gaps, here)).await?;
        let outside = table.outside(self.reader, rows).await?;
        let figures = Figures { rows, missing: missing_count, decided: divided.left_out, outside };
        let name = table.rows.row.table.clone();
        let compared = Compared::by(table.scope.clone(), name, figures);
        let decided_sent = divided.sent;
        let of_table = OfTable { compared, of_records, decided_sent, oldest, sent: None };
        Ok((of_table, divided.to_send))
    }

    /// The proof that closes the gaps.
    fn nothing_missing(&self, found: &Found, prepared: &Prepared) -> Result<ClosedGap, TaskError> {
        let settled: Vec<_> = found.tables.iter().map(OfTable::settled).collect();
        let filtered_rows = match self.args.filtered {
            Some(FilteredChoice::GiveUp) => FilteredRows::GivenUp,
            Some(FilteredChoice::Send) | None => FilteredRows::Kept,
        };
        let required = self.required(&prepared.catalog);
        ClosedGap::of(&required, &settled, filtered_rows).ok_or_else(|| {
            let failure = found.filtered().unwrap_or_else(|| {
                let what = "not every row that was missing is settled: nothing was closed";
                Failure::of(Case::RecoverUnsettled, what)
            });
            self.args.with_typed(failure).into()
        })
    }

    /// Rows were compared by the time that the mapping names. Where `[retention]` goes by another
    /// column, no time tells which rows those were.
    fn age_as_compared(&self, now: &mut Catalog) {
        let Some(time) = &self.config.retention.time_column else { return };
        let outboxes = self.config.outboxes();
        for table in &mut now.relations {
            let outbox = outboxes.tables.iter().find(|outbox| outbox.name == table.name);
            let mapped = outbox.and_then(|outbox| row_columns(outbox, &table.columns).ok()?.time);
            if mapped != Some(time.as_str()) {
                table.age = AgeColumn::None;
            }
        }
    }

    /// Closes the gaps, with the figures. The slot is still held.
    async fn close(
        &self,
        holder: &SlotHolder,
        prepared: &Prepared,
        closed: &ClosedGap,
    ) -> Result<(), TaskError> {
        let facts =
            accept::read_facts(self.config, self.records, self.source, holder.pid()).await?;
        // While no router has written them down, a new slot gives them another code.
        let facts = facts.with_shown(self.gaps);
        // Rows that a publication leaves out for a while are in neither snapshot nor stream.
        if let Some(what) = altered(&prepared.catalog, &facts.reading.catalog) {
            return Err(altered_meanwhile(&what).into());
        }
        let open = recoverable_gaps(&facts.witness);
        let known = names(self.gaps);
        let is_compared =
            |gap: &Gap| known.contains(&gap.name()) || was_compared(gap, (self.gaps, self.witness));
        if let Some(other) = open.iter().find(|gap| !is_compared(gap)) {
            return Err(altered_meanwhile(&format!("{} was found", other.name())).into());
        }
        let open: Vec<OpenFinding> = open.into_iter().map(OpenFinding::Gap).collect();
        let by = self.args.decision.decider(self.access.environment).by;
        let noted = left_out::noted(self.books, &self.config.name).await?;
        let mut now = facts.reading.catalog.clone();
        self.age_as_compared(&mut now);
        let next = facts.closed(self.config, &open, &by)?;
        let next = next.with_recovered(closed, &now).with_notes(noted);
        Ok(self.records.write(COMMAND, &next).await?)
    }
}

/// Refuses rows that have another record in their topic under their ids: an index on the ids of a
/// table does not reach over rows that were deleted.
fn check_differing(table: &ComparedTable, others: Others, ids: IdTrust) -> Result<(), Failure> {
    if others.differing == 0 || ids == IdTrust::Unique {
        return Ok(());
    }
    let rows = wording::count(i64::try_from(others.differing).unwrap_or(i64::MAX), "row");
    let what = format!(
        "{rows} of {} in the scope of the gaps, with another record in their topic under the same \
         id: they were updated since, or the records are those of former rows",
        table.rows.row.table
    );
    Err(Failure::of(Case::RecoverIdAmbiguous, what))
}

/// Rows may be in neither snapshot nor stream.
fn altered_meanwhile(what: &str) -> Failure {
    Failure::of(Case::RecoverAltered, format!("nothing was closed: {what} meanwhile"))
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
