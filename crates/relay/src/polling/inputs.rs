//! What each input means.

use std::time::Duration;

use pgoutput::Message;

use super::{
    Poller, Work,
    batch::{Asked, Batch, KeyStops},
    lease_length::LeaseLength,
    protocol::{Described, FetchRequest, Fetched, Leases, More, PollInput, Settled, TableIndex},
    shards::ShardSet,
    table::{Description, Shape},
};
use crate::{
    clock::{Moment, Now},
    failure::{Case, Class, Code, Failure, Name},
    held::{ErrorClass, HoldKeys},
    ports::Acks,
    progress::ticket::TransactionRef,
    protocol::ExitReason,
    routing::table::TableName,
    source::quote_table,
};

/// The wait after a failure that a person has to mend: the cause is looked at again so often.
pub(super) const MENDABLE_RETRY: Duration = Duration::from_secs(10);

/// After this time it is looked whether rows are free that another transaction had locked.
const LOCKED_FOR: Duration = Duration::from_secs(1);

/// The wait before the next producer, after a broker has refused a record: as many are made as
/// there are records of that kind.
const REFUSED: Duration = Duration::from_millis(100);

impl Poller {
    /// Takes an input, and says by [`Poller::next_action`] what follows.
    pub fn handle(&mut self, input: PollInput<'_>, now: Now) {
        let at = now.at;
        match input {
            PollInput::Described(table, answer) => self.described(table, answer, at),
            PollInput::Leased(Ok(leases)) => self.leased(leases, at),
            PollInput::Leased(Err(failure)) => {
                self.lease.failed(at);
                self.server_failed(failure);
            }
            PollInput::Fetched(answer) => self.fetched(answer, at),
            PollInput::Settled(answer) => self.settled(answer, at),
            PollInput::Notified(table) => {
                if let Some(table) = self.tables.get_mut(table.0) {
                    table.notified();
                }
            }
            PollInput::Acks(acks) => self.acks(acks, now),
            PollInput::DeliveryFailed { transaction, failure } => {
                self.delivery_failed(transaction, failure, at);
            }
            PollInput::SinkReady => {
                self.producer = self.producer.next();
                self.topics.forget();
                self.sink.ready(at);
            }
            PollInput::BrokersUnreachable(failure) => self.brokers_unreachable = failure,
            PollInput::Topic(id, answer) => self.topics.answer(id, answer, at),
            PollInput::Shutdown => {
                if self.drain_by.is_none() {
                    self.drain_by = Some(at + self.settings.shutdown_limit);
                }
            }
            PollInput::Tick => {}
        }
        self.proceed(at);
    }

    fn leased(&mut self, leases: Leases, at: Moment) {
        let held = (0..self.tables.len()).map(|index| self.lease.held(index));
        let before: Vec<ShardSet> = held.collect();
        self.lease.answer(leases);
        self.server = None;
        // A worker locks rows in the first half of a lease only, for as long as a lease lasts.
        let unlocked_at = at + self.settings.lease.producing();
        for (index, (table, before)) in self.tables.iter_mut().zip(before).enumerate() {
            table.is_now(self.lease.relation(index), at);
            if !self.lease.held(index).is_within(before) {
                table.has_more_shards(unlocked_at, at);
            }
        }
    }

    fn described(&mut self, index: TableIndex, answer: Result<Described, Failure>, at: Moment) {
        if let Work::Describing = self.work {
            self.work = Work::Idle;
        }
        let Self { rows, settings, .. } = self;
        let taken = answer.and_then(|described| {
            let mut described_is = None;
            for message in &described.messages {
                match Message::parse(message).as_ref()? {
                    Message::Relation(relation) => {
                        rows.describe(&settings.outboxes, relation, message);
                        described_is = Some(relation.id);
                    }
                    Message::Type(named) => rows.name_type(named, message),
                    Message::Begin(_)
                    | Message::Commit(_)
                    | Message::Origin(_)
                    | Message::Insert(_)
                    | Message::Update(_)
                    | Message::Delete(_)
                    | Message::Truncate(_)
                    | Message::Logical(_)
                    | Message::StreamAbort(_) => {
                        return Err(no_row());
                    }
                }
            }
            let relation = described_is.ok_or_else(no_row)?;
            Ok(Shape { relation, waits: described.waits, since: at })
        });
        if let Some(table) = self.tables.get_mut(index.0) {
            table.was_described(taken.as_ref().err(), at);
        }
        match taken {
            Ok(known) => {
                if let Some(table) = self.tables.get_mut(index.0) {
                    table.bears_name_now(known.relation);
                    if let Description::Unknown(_) = table.description {
                        table.fetch_at = at;
                        // That it is read in time is shown by the next reading alone.
                        table.failure.take_if(|failure| !is_slow_reading(failure));
                    }
                    table.description = Description::Known(known);
                }
                self.server = None;
            }
            Err(failure) => self.table_failed(index, failure, at),
        }
    }

    fn fetched(&mut self, answer: Result<Fetched, Failure>, at: Moment) {
        let Work::Fetching { request, asked } = std::mem::replace(&mut self.work, Work::Idle)
        else {
            return;
        };
        let fetched = match answer {
            Ok(fetched) => fetched,
            Err(failure) if failure.case == Some(Case::TableAltered) => {
                // Nothing was read, and nothing is wrong.
                let due = at + self.backoff.next();
                if let Some(table) = self.tables.get_mut(request.table.0) {
                    table.description = Description::Unknown(due);
                }
                return;
            }
            Err(failure) => return self.table_failed(request.table, failure, at),
        };
        self.server = None;
        self.backoff.reset();
        if let Some(table) = self.tables.get_mut(request.table.0) {
            table.totals.batches += 1;
            table.totals.fetched += u64::try_from(fetched.rows.len()).unwrap_or(0);
            table.waits.forget(at);
            table.has_read(&fetched.rows);
            if fetched.rows.is_empty() {
                table.found_nothing(asked.at, at);
            }
            match fetched.more {
                More::Maybe => table.fetch_at = at,
                More::Locked => {
                    table.is_read_out(self.settings.interval.min(LOCKED_FOR), asked.at, at);
                }
                More::No => table.is_read_out(self.settings.interval, asked.at, at),
            }
        }
        self.judge_reading(&request, asked, fetched.rows.len(), at);
        let batch = Batch::new(&request, asked, fetched, self.producer, self.next_ticket);
        self.next_ticket = self.next_ticket.wrapping_add(u64::try_from(batch.len()).unwrap_or(0));
        self.work = Work::Producing(Box::new(batch));
    }

    /// Rows that took longer to be read than what was read counts are not produced, and the next
    /// reading need not be faster. So the table waits, and its failure says why.
    fn judge_reading(&mut self, request: &FetchRequest, asked: Asked, rows: usize, at: Moment) {
        let is_in_time = at < self.stale_at(asked);
        let Some(table) = self.tables.get_mut(request.table.0) else { return };
        if is_in_time {
            table.failure.take_if(|failure| is_slow_reading(failure));
            return;
        }
        // A lease that was not renewed either shows that this process was stopped.
        if rows > 0 && self.lease.covers(request.table.0, request.shards, at) {
            let failure = slow_reading(&table.name, at.since(asked.at), self.settings.lease);
            self.table_failed(request.table, failure, at);
        }
    }

    fn settled(&mut self, answer: Result<Settled, Failure>, at: Moment) {
        let Work::Settling(mut settling) = std::mem::replace(&mut self.work, Work::Idle) else {
            return;
        };
        match answer {
            Ok(settled) => {
                self.server = None;
                self.backoff.reset();
                self.note_settled(&settling.batch, &settling.request, settled, at);
            }
            Err(failure) => {
                self.count_server_failure(&failure);
                if self.is_gone(&settling.batch, &failure) {
                    return self.note_settled(
                        &settling.batch,
                        &settling.request,
                        Settled::NOT_OURS,
                        at,
                    );
                }
                // The shell describes the table by itself to write the marks. Rows are read by what
                // the core knows of it.
                if failure.class() == Class::Mendable
                    && let Some(table) = self.tables.get_mut(settling.batch.table.0)
                {
                    table.description = Description::Unknown(at);
                }
                // The rows are acknowledged. They are not read again before their marks are
                // written, or they would be produced again; unless the connection is lost that has
                // read them, as the answer to the next attempt says.
                settling.failure = Some(failure);
                settling.retry_at = Some(at + self.backoff.next());
                self.work = Work::Settling(settling);
            }
        }
    }

    /// Whether the table of a batch has gone, as the leases say, too: its name is another table's,
    /// which may not be fit to be polled, or nobody's.
    fn is_gone(&self, batch: &Batch, failure: &Failure) -> bool {
        match self.lease.relation(batch.table.0) {
            Some(relation) => {
                relation != batch.asked.relation && failure.class() == Class::Mendable
            }
            None => failure.code == Code::TableMissing,
        }
    }

    fn acks(&mut self, acks: &Acks, now: Now) {
        let Work::Producing(batch) = &mut self.work else { return };
        for run in acks.runs() {
            let Some(row) = batch.acked(run) else { continue };
            let micros = now.wall.as_micros().saturating_sub(row.at.as_micros());
            self.totals.topics.count(run.topic, run.records, Some(micros));
            self.sink.succeeded();
        }
    }

    fn delivery_failed(&mut self, row: Option<TransactionRef>, failure: Failure, at: Moment) {
        *self.totals.errors.entry(failure.code).or_default() += 1;
        let stops = self.key_stops();
        // Only what lies in the row itself counts as an attempt of it; everything else passes.
        let is_of_row = ErrorClass::of(failure.code).is_some();
        if let (Work::Producing(batch), Some(row), true) = (&mut self.work, row, is_of_row) {
            // A broker refuses a whole request, and the report names the first of its records. So
            // only a row that was offered alone is known to be the one.
            if batch.is_alone(row) {
                batch.refused(row, failure.clone(), stops);
            } else if let Some(table) = self.tables.get_mut(batch.table.0) {
                table.one_by_one = batch.len();
            }
        }
        if is_of_row {
            // The producer works: another one may begin almost at once.
            self.replace_sink_after(REFUSED, None, at);
        } else {
            // The producer gives up by itself what waits too long, and a process that gets little
            // time hears of it before its own deadline. After the end of a lease nothing is said of
            // Kafka: the process was stopped.
            if self.lease.ends_at().is_some_and(|end| at < end) {
                self.note_unanswered(at);
            }
            self.replace_sink(Some(&failure), at);
        }
    }

    /// Makes another producer. What is in flight is lost with the present one.
    pub(super) fn replace_sink(&mut self, why: Option<&Failure>, at: Moment) {
        self.replace_sink_after(Duration::ZERO, why, at);
    }

    /// The same, after `least` at the earliest.
    fn replace_sink_after(&mut self, least: Duration, why: Option<&Failure>, at: Moment) {
        if let Work::Producing(batch) = &mut self.work {
            if batch.unacked() > 0 && self.drain_by.is_some() {
                self.drained = ExitReason::EventsUnconfirmed;
            }
            batch.lose_flight();
        }
        if let Some(wait) = self.sink.replace(why, at) {
            let wait = wait.max(least);
            self.actions.push_back(super::PollAction::ReplaceSink { wait });
        }
    }

    /// A table cannot be read: it is described again after a while.
    pub(super) fn table_failed(&mut self, index: TableIndex, failure: Failure, at: Moment) {
        *self.totals.errors.entry(failure.code).or_default() += 1;
        let wait = match failure.class() {
            Class::Mendable | Class::Gap => MENDABLE_RETRY,
            Class::Transport | Class::Replay | Class::Note => self.backoff.next(),
        };
        let Some(table) = self.tables.get_mut(index.0) else { return };
        table.description = Description::Unknown(at + wait);
        table.failure = Some(failure);
    }

    fn server_failed(&mut self, failure: Failure) {
        self.count_server_failure(&failure);
        self.server = Some(failure);
    }

    fn count_server_failure(&mut self, failure: &Failure) {
        *self.totals.errors.entry(failure.code).or_default() += 1;
        if failure.class() == Class::Transport {
            self.totals.reconnects += 1;
        }
    }

    pub(super) fn key_stops(&self) -> KeyStops {
        match self.settings.hold_keys {
            HoldKeys::Yes => KeyStops::Yes,
            HoldKeys::No => KeyStops::No,
        }
    }
}

fn no_row() -> Failure {
    Failure::new(Code::Protocol, "a message that describes no row")
}

fn slow_reading(table: &TableName, took: Duration, lease: LeaseLength) -> Failure {
    let what = format!(
        "{table} cannot be polled: reading its pending rows took {:.1} s, longer than half of \
         polling.lease ({} s), so none of them was sent",
        took.as_secs_f32(),
        lease.whole().as_secs_f32()
    );
    Failure::of(Case::ReadingSlow, what)
        .naming(Name::Table, table)
        .naming(Name::QuotedTable, quote_table(table))
}

/// Whether it is the failure of a table that is read too slowly.
pub(super) fn is_slow_reading(failure: &Failure) -> bool {
    failure.case == Some(Case::ReadingSlow)
}
