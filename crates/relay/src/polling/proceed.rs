//! What follows from the state after every input.

use std::time::Duration;

use super::{
    Exited, PollState, Poller, Work,
    batch::{Asked, Batch},
    inputs::is_slow_reading,
    lease::Busy,
    protocol::{FetchRequest, PassedOver, PollAction, TableIndex, WaitsKept},
    table::{Description, Shape, Table},
};
use crate::{
    clock::Moment,
    failure::{Class, Code, Failure, Name},
    held::HoldKeys,
    protocol::{ExitReason, OnFailed},
    routing::record::TopicId,
};

/// How long a description of a table counts: a column may have been added since.
const DESCRIBED_FOR: Duration = Duration::from_secs(60);

impl Poller {
    /// The earliest moment after `at` at which something is due without an input.
    pub fn deadline(&self, at: Moment) -> Option<Moment> {
        if self.exited == Exited::Yes {
            return None;
        }
        let lease = [self.lease.ask_at(), self.lease.ends_at(), self.drain_by];
        let work = match &self.work {
            Work::Idle => self.next_reading(at),
            Work::Describing | Work::Fetching { .. } => None,
            Work::Producing(batch) => {
                let purge = self.purge_at(batch);
                let awaited = self.tables.get(batch.table.0).and_then(|table| table.awaited);
                let topic = awaited.and_then(|topic| self.topics.look_up_at(topic));
                let lease = self.lease.produces_until();
                let moments = [Some(self.stale_at(batch.asked)), lease, purge, topic];
                moments.into_iter().flatten().filter(|moment| *moment > at).min()
            }
            Work::Settling(settling) => settling.retry_at,
        };
        lease.into_iter().chain([work]).flatten().filter(|moment| *moment > at).min()
    }

    /// Decides what to do next. Called after every input.
    pub(super) fn proceed(&mut self, at: Moment) {
        if self.exited == Exited::Yes {
            return;
        }
        self.end_lease_if_over(at);
        self.purge_if_late(at);
        self.stop_batch_if_unheld(at);
        self.settle_if_done(at);
        self.write_again_if_due(at);
        self.forget_unheld(at);
        self.leave_if_failed(at);
        if self.drain_by.is_some() {
            self.drain(at);
        } else {
            self.renew_lease(at);
            self.begin_reading(at);
        }
    }

    /// The moment from which on a batch is produced no more: what reading it has said of others'
    /// claims counts for as long as a lease does.
    pub(super) fn stale_at(&self, asked: Asked) -> Moment {
        asked.at + self.settings.lease.producing()
    }

    /// Looks a topic up, unless that is under way or was refused a moment ago. The first answer is
    /// waited for amid the batch. Once the topic was refused, the next one may be long in coming,
    /// and other tables have their turn meanwhile.
    pub(super) fn look_up(&mut self, table: TableIndex, topic: TopicId, at: Moment) {
        if let Some(table) = self.tables.get_mut(table.0) {
            table.awaited = Some(topic);
        }
        if self.topics.begin_look_up(topic, at)
            && let Some(name) = self.topics.name(topic)
        {
            self.actions.push_back(PollAction::LookUpTopic(topic, name.clone()));
        }
        if let Work::Producing(batch) = &mut self.work
            && self.topics.refusal(topic).is_some()
        {
            batch.stop();
        }
    }

    /// When the rows of a table are to be read. If the topic that its next row waits for was
    /// refused, they would come no further before it is looked up again. If records of it were not
    /// acknowledged, the next attempt with them waits.
    fn reading_due_at(&self, index: usize, table: &Table) -> Moment {
        let refused = table.awaited.filter(|topic| self.topics.refusal(*topic).is_some());
        let look_up_at = refused.and_then(|topic| self.topics.look_up_at(topic));
        let again_at = table.unanswered.again_at(self.lease.held(index));
        let earliest = again_at.max(look_up_at.unwrap_or_default());
        table.due_at().max(earliest)
    }

    /// After the end of a lease nothing may be sent, and what is in flight may not be sent again:
    /// another worker may have the key.
    fn end_lease_if_over(&mut self, at: Moment) {
        if self.lease.ends_at().is_none_or(|end| end > at) {
            return;
        }
        self.lease.give_up();
        if let Work::Producing(batch) = &self.work
            && batch.unacked() > 0
        {
            self.replace_sink(None, at);
        }
    }

    /// When to give up what is in flight.
    pub(super) fn purge_at(&self, batch: &Batch) -> Option<Moment> {
        let limit = self.settings.lease.unacknowledged();
        batch.oldest_unacked().map(|sent_at| sent_at + limit)
    }

    /// Counts an attempt whose records are to be given up by now, if there is one.
    pub(super) fn note_unanswered(&mut self, at: Moment) -> Option<Failure> {
        let Work::Producing(batch) = &self.work else { return None };
        self.purge_at(batch).filter(|due| *due <= at)?;
        let table = self.tables.get_mut(batch.table.0)?;
        let limit = self.settings.lease.unacknowledged();
        Some(table.unanswered.given_up(limit, batch.shards, at))
    }

    fn purge_if_late(&mut self, at: Moment) {
        let Some(failure) = self.note_unanswered(at) else { return };
        *self.totals.errors.entry(failure.code).or_default() += 1;
        self.replace_sink(Some(&failure), at);
    }

    fn stop_batch_if_unheld(&mut self, at: Moment) {
        let Work::Producing(batch) = &self.work else { return };
        let is_held = self.lease.covers_batch(batch, at);
        let goes_on = is_held && at < self.stale_at(batch.asked) && self.drain_by.is_none();
        if let Work::Producing(batch) = &mut self.work
            && !goes_on
            && batch.has_next()
        {
            if is_held {
                batch.stop();
            } else {
                batch.lose_claim();
            }
        }
    }

    /// Of a table without shards nothing stands in the way that reading it has met.
    fn forget_unheld(&mut self, at: Moment) {
        let Self { tables, lease, .. } = self;
        let of_reading =
            |failure: &mut Failure| is_slow_reading(failure) || failure.code == Code::HeldFull;
        for (index, table) in tables.iter_mut().enumerate() {
            if lease.held(index).is_empty() {
                table.failure.take_if(of_reading);
                table.is_unheld(at);
            }
        }
    }

    fn renew_lease(&mut self, at: Moment) {
        for (index, table) in self.tables.iter().enumerate() {
            self.lease.set_readable(index, table.readable(self.settings.lease.whole(), at));
        }
        let busy = match self.work {
            Work::Idle | Work::Describing => Busy::No,
            Work::Fetching { .. } | Work::Producing(_) | Work::Settling(_) => Busy::Yes,
        };
        if let Some(request) = self.lease.request(busy, at) {
            self.actions.push_back(PollAction::Lease(request));
        }
    }

    /// Begins to read a table that is due, the one after the last first.
    fn begin_reading(&mut self, at: Moment) {
        let tables = self.tables.len();
        for offset in 1..=tables {
            if !matches!(self.work, Work::Idle) || !self.sink.is_ready() {
                return;
            }
            let index = TableIndex((self.last + offset) % tables);
            let Some(table) = self.tables.get(index.0) else { return };
            match table.description {
                Description::Unknown(due) if due <= at => self.describe(index),
                Description::Known(known) if known.since + DESCRIBED_FOR <= at => {
                    self.describe(index);
                }
                Description::Known(known) if self.reading_due_at(index.0, table) <= at => {
                    self.fetch(index, known, at);
                }
                Description::Known(_) | Description::Unknown(_) => {}
            }
        }
    }

    fn describe(&mut self, index: TableIndex) {
        self.work = Work::Describing;
        self.last = index.0;
        self.actions.push_back(PollAction::Describe(index));
    }

    fn fetch(&mut self, index: TableIndex, shape: Shape, at: Moment) {
        let shards = self.lease.usable(index.0, at);
        let is_leased = self.lease.relation(index.0) == Some(shape.relation);
        let Some(table) = self.tables.get_mut(index.0) else { return };
        if shards.is_empty() || !is_leased {
            return;
        }
        let keys = table.waits.keys(at);
        if keys.len() >= self.settings.keys_max {
            table.failure = Some(too_many_wait(table.name.to_string(), keys.len()));
            table.fetch_at = table.waits.next_due(at).unwrap_or(at + self.settings.interval);
            table.reads(at);
            return;
        }
        if table.failure.as_ref().is_some_and(|failure| failure.code == Code::HeldFull) {
            table.failure = None;
        }
        let limit = if table.one_by_one > 0 { 1 } else { self.settings.batch };
        let passed_over = match (shape.waits, self.settings.hold_keys) {
            (WaitsKept::InMemory, HoldKeys::Yes) => PassedOver::Keys(keys),
            (WaitsKept::InMemory, HoldKeys::No) => PassedOver::Rows(table.waits.ids(at)),
            (WaitsKept::InTable, HoldKeys::Yes | HoldKeys::No) => PassedOver::NOTHING,
        };
        table.reads(at);
        self.last = index.0;
        let request = FetchRequest { table: index, shards, limit, passed_over };
        self.actions.push_back(PollAction::Fetch(request.clone()));
        let asked = Asked { at, as_of: self.lease.as_of(), relation: shape.relation };
        self.work = Work::Fetching { request, asked };
    }

    /// When a table is to be read or described after `at`. One that is due already waits for
    /// something else.
    fn next_reading(&self, at: Moment) -> Option<Moment> {
        let due = |(index, table): (usize, &Table)| match table.description {
            Description::Unknown(due) => [due, due],
            Description::Known(known) => {
                [self.reading_due_at(index, table), known.since + DESCRIBED_FOR]
            }
        };
        self.tables.iter().enumerate().flat_map(due).filter(|moment| *moment > at).min()
    }

    /// With [`OnFailed::Exit`], stops where a person is needed. What is in flight is delivered and
    /// marked first; and, where it is a row that waits, everything that does not wait behind it.
    fn leave_if_failed(&mut self, at: Moment) {
        if self.settings.on_failed == OnFailed::Stay || self.drain_by.is_some() {
            return;
        }
        let (PollState::Failed, Some(failure)) = self.condition(at) else { return };
        if self.mended_by_person().is_none() && self.reads_more(at) {
            return;
        }
        self.failed = Some(failure);
        self.drain_by = Some(at + self.settings.shutdown_limit);
    }

    /// Whether rows are in work, or may be there to be read at once.
    fn reads_more(&self, at: Moment) -> bool {
        let mut tables = self.tables.iter().enumerate();
        !matches!(self.work, Work::Idle)
            || tables.any(|(index, table)| {
                !self.lease.held(index).is_empty() && self.reading_due_at(index, table) <= at
            })
    }

    /// Whether what is under way waits for the person whom the process ends for.
    fn waits_for_person(&self) -> bool {
        let what = match &self.work {
            Work::Settling(settling) => settling.failure.as_ref(),
            Work::Producing(_) => self.brokers_unreachable.as_ref(),
            Work::Idle | Work::Describing | Work::Fetching { .. } => None,
        };
        self.failed.is_some() && what.is_some_and(|failure| failure.class() == Class::Mendable)
    }

    fn drain(&mut self, at: Moment) {
        if self.drain_by.is_some_and(|by| by <= at) || self.waits_for_person() {
            return self.exit(match self.work {
                Work::Idle | Work::Describing | Work::Fetching { .. } => self.drained,
                Work::Producing(_) | Work::Settling(_) => ExitReason::EventsUnconfirmed,
            });
        }
        if !matches!(self.work, Work::Idle) || self.lease.is_asked() {
            return;
        }
        match self.lease.release(at) {
            Some(request) => self.actions.push_back(PollAction::Lease(request)),
            None => self.exit(self.drained),
        }
    }

    fn exit(&mut self, reason: ExitReason) {
        self.exited = Exited::Yes;
        let reason = if self.failed.is_some() { ExitReason::Failed } else { reason };
        self.actions.push_back(PollAction::Exit(reason));
    }
}

fn too_many_wait(table: String, keys: usize) -> Failure {
    let what = format!(
        "{keys} keys of {table} wait for rows that cannot be delivered, as many as \
         dead_letters.max_keys allows"
    );
    Failure::new(Code::HeldFull, what).naming(Name::Table, table)
}
