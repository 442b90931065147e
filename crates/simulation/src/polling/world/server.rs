//! PostgreSQL's side: transactions of the application, and requests of workers.

use std::{num::NonZeroI32, time::Duration};

use relay::{
    Case, Code, Failure, Moment, TopicFacts,
    delivered::ServerSession,
    polling::{
        Described, Fetched, LeaseRequest, Leases, PollInput, RequestNumber, SettleRequest, Written,
    },
};

use super::{Orphan, OrphanStatement, PollingWorld, SLOTS};
use crate::{
    invariant::Invariant,
    polling::{
        plan::{Changes, LEASE},
        process::{Asked, Call, Mishap, Statement, StatementAnswer},
        shape::{self, PARTITIONS, Poison},
        table::RowState,
    },
};

/// The longest that a statement is carried out after its connection is gone.
const LATE: Duration = Duration::from_secs(5);
/// The most rows of one key that a transaction writes one after the other.
const ROWS_MAX: u64 = 8;
/// The most transactions that are open at a time.
const OPEN_MAX: usize = 3;

impl PollingWorld {
    /// An application begins a transaction, writes a row or ends a transaction.
    pub(super) fn write(&mut self) {
        if self.database_down_until.is_some() {
            return;
        }
        if self.plan.changes == Changes::Some && self.random.one_in(3) {
            return self.change();
        }
        let open = self.tables.open();
        if open == 0 || (open < OPEN_MAX && self.random.one_in(4)) {
            return self.tables.begin();
        }
        let transaction = self.random.index(open);
        match self.random.below(8) {
            0 => self.tables.roll_back(transaction),
            1..4 => {
                self.tables.commit(transaction);
                self.notify();
            }
            _ => {
                let table = self.random.index(self.plan.tables);
                let key = self.random.below(self.plan.keys);
                let rows = if self.random.one_in(10) { self.random.below(ROWS_MAX) } else { 0 };
                for _ in 0..=rows {
                    let is_poisoned = self.plan.poison > 0 && self.random.one_in(self.plan.poison);
                    let poison = Poison::ALL[self.random.index(Poison::ALL.len())];
                    self.tables.write(transaction, table, key, is_poisoned.then_some(poison));
                }
            }
        }
    }

    /// An application writes into a row that is there, as one does that keeps a row for each of its
    /// aggregates. What it writes into a row that is delivered is to be delivered, too.
    fn change(&mut self) {
        let rows = self.tables.rows().iter().enumerate();
        let visible = rows.filter(|(_, row)| row.is_visible());
        let (done, open): (Vec<_>, Vec<_>) =
            visible.partition(|(_, row)| row.state == RowState::Published);
        let of = if open.is_empty() || self.random.one_in(4) { done } else { open };
        let numbers: Vec<usize> = of.into_iter().map(|(number, _)| number).collect();
        if numbers.is_empty() {
            return;
        }
        let row = numbers[self.random.index(numbers.len())];
        let is_published = self.tables.rows()[row].state == RowState::Published;
        if is_published || self.random.one_in(2) {
            self.tables.upsert(row);
        } else {
            self.tables.update(row);
        }
        self.trace(|| format!("somebody changes row {row}"));
    }

    /// A NOTIFY reaches some of the workers, or none.
    fn notify(&mut self) {
        for slot in 0..SLOTS {
            let table = self.random.index(self.plan.tables);
            let is_lost = self.random.one_in(2);
            let process = self.slots[slot].process.as_ref().filter(|process| process.runs());
            let place = process.and_then(|process| process.place_of(table));
            if let (Some(place), false) = (place, is_lost) {
                self.may_read_soon(slot);
                self.input(slot, PollInput::Notified(place));
            }
        }
    }

    /// One request of a worker goes a step further.
    pub(super) fn serve(&mut self, slot: usize) {
        match self.random.below(7) {
            0 => self.carry_out_lease(slot),
            1 | 2 => self.carry_out_statement(slot),
            3 => self.deliver_lease(slot),
            4 | 5 => self.deliver_statement(slot),
            _ => self.answer_look_up(slot),
        }
    }

    /// The server carries out a lease request.
    pub(super) fn carry_out_lease(&mut self, slot: usize) {
        let (at, is_down) = (self.at, self.database_down_until.is_some());
        let Some(process) = &mut self.slots[slot].process else { return };
        let Some(Asked { call: Call::Asked(request), .. }) = &process.lease else { return };
        let (request, number) = (request.clone(), process.number);
        let asked = process.lease_number;
        let mishap = process.lease_mishap.take();
        let answer = if is_down || process.lease_cut_until > at || mishap == Some(Mishap::Refused) {
            Err(Self::unreachable_server())
        } else {
            let in_flight =
                process.producer.as_ref().map(|producer| producer.rows()).unwrap_or_default();
            let in_flight = self.checker.held_of(number, in_flight, &self.tables, &self.leases);
            self.leases.is_next(number, asked);
            let answer = self.lease((number, asked), &request);
            self.checker.given_back(number, &in_flight, &self.tables, &self.leases);
            if mishap.is_some() { Err(Self::unreachable_server()) } else { Ok(answer) }
        };
        if let Some(asked) = self.slots[slot].process.as_mut().and_then(|one| one.lease.as_mut()) {
            asked.call = Call::Answered(answer);
        }
    }

    fn lease(&mut self, by: (u64, RequestNumber), request: &LeaseRequest) -> Leases {
        let tables = &self.processes[&by.0];
        match request {
            LeaseRequest::Hold { wanted } => {
                let wanted: Vec<_> = tables.iter().copied().zip(wanted.iter().copied()).collect();
                self.leases.hold(by, &wanted, LEASE, self.clock.at(self.at), &mut self.random)
            }
            LeaseRequest::Release => self.leases.release(by.0, by.1, tables),
        }
    }

    /// The server carries out a statement on rows.
    pub(super) fn carry_out_statement(&mut self, slot: usize) {
        let (at, is_down) = (self.at, self.database_down_until.is_some());
        let Some(process) = &mut self.slots[slot].process else { return };
        let Some(Asked { call: Call::Asked(statement), .. }) = &process.statement else { return };
        let (statement, number) = (statement.clone(), process.number);
        let (mishap, by) = (process.statement_mishap.take(), (number, process.session));
        let lost = StatementAnswer::lost(&statement, Self::unreachable_server());
        let is_cut_off = process.statements_cut_until > at;
        let answer = if is_down || is_cut_off || mishap == Some(Mishap::Refused) {
            lost
        } else if self.is_denied(slot, &statement) {
            let failure = Failure::of(Case::PermissionDenied, "permission denied for the table");
            StatementAnswer::lost(&statement, failure)
        } else {
            let (answer, has_rows) = self.statement(by, &statement);
            match statement {
                Statement::Fetch(_) if !has_rows => self.nothing_was_read(slot),
                Statement::Describe(_) | Statement::Fetch(_) | Statement::Settle(_) => {
                    self.may_read_soon(slot);
                }
            }
            if has_rows && let Some(process) = &mut self.slots[slot].process {
                process.requests = 0;
            }
            if mishap.is_some() { lost } else { answer }
        };
        let Some(process) = &mut self.slots[slot].process else { return };
        if is_down || is_cut_off || mishap == Some(Mishap::AnswerLost) {
            process.session = process.session.next();
        }
        if let Some(asked) = process.statement.as_mut() {
            asked.call = Call::Answered(answer);
        }
    }

    /// Who may not read a table learns it when it asks what the table looks like.
    fn is_denied(&self, slot: usize, statement: &Statement) -> bool {
        match statement {
            Statement::Describe(table) => {
                let denial = self.plan.denial(slot, table.0);
                denial.is_some_and(|denied| denied.until.is_none_or(|until| self.at < until))
            }
            Statement::Fetch(_) | Statement::Settle(_) => false,
        }
    }

    /// Something has happened after which a table may be read at once.
    pub(super) fn may_read_soon(&mut self, slot: usize) {
        if let Some(process) = &mut self.slots[slot].process {
            process.empty_reads = (0, self.at);
        }
    }

    /// A table without rows is left alone for an interval, but for rows that wait: it is read when
    /// their time comes, also if another worker has them by then.
    fn nothing_was_read(&mut self, slot: usize) {
        let (at, interval) = (self.at, self.plan.interval);
        let Some(process) = &mut self.slots[slot].process else { return };
        let report = process.core.report(at);
        let waiting: u64 = report.tables.iter().map(|table| table.waiting).sum();
        let tables = process.tables.len();
        let (reads, since) = &mut process.empty_reads;
        *reads += 1;
        let (reads, passed) = (*reads, at.since(*since));
        let intervals = passed.as_millis() / interval.as_millis();
        let most = u128::try_from(tables).expect("a few") * (intervals + 3) + u128::from(waiting);
        if u128::from(reads) > most {
            self.checker.report(Invariant::W6Rest, || {
                format!("{reads} readings without rows in {passed:?}, {interval:?} apart")
            });
        }
    }

    /// The answer, and whether any row was read or written.
    fn statement(
        &mut self,
        (process, session): (u64, ServerSession),
        statement: &Statement,
    ) -> (StatementAnswer, bool) {
        match statement {
            Statement::Describe(table) => {
                let described =
                    Described { messages: vec![shape::relation(table.0)], waits: self.plan.waits };
                (StatementAnswer::Described(*table, Ok(described)), false)
            }
            Statement::Fetch(request) => {
                let fetched = self.tables.fetch(request, process, self.clock.at(self.at));
                let fetched = Fetched { session, ..fetched };
                let has_rows = !fetched.rows.is_empty();
                self.trace(|| {
                    let ids = fetched.rows.iter().map(|row| row.id.0[0].to_string());
                    format!("{process} reads rows {:?}", ids.collect::<Vec<_>>())
                });
                (StatementAnswer::Fetched(Ok(fetched)), has_rows)
            }
            Statement::Settle(request) => {
                let SettleRequest { published, failed, .. } = request;
                let has_rows = !published.is_empty() || !failed.is_empty();
                self.checker.settling(request, &self.tables);
                let leases = &self.leases;
                let has_had =
                    |shard| leases.has_had(process, request.table.0, shard, request.as_of);
                let has_all = request.shards.iter().all(has_had);
                let written = if request.session != session {
                    Written::SessionLost
                } else if has_all {
                    Written::Yes
                } else {
                    Written::NotOurs
                };
                self.checker.interrupted(process, request, written);
                let settled = self.tables.settle(request, process, written, self.clock.at(self.at));
                self.checker.settled(request, &self.tables);
                self.trace(|| format!("{process} marks {request:?}"));
                (StatementAnswer::Settled(Ok(settled)), has_rows)
            }
        }
    }

    /// A look-up of a topic is answered.
    pub(super) fn answer_look_up(&mut self, slot: usize) {
        let Some(process) = self.slots[slot].process.as_mut().filter(|process| process.runs())
        else {
            return;
        };
        if self.kafka.down_until.is_some() {
            return;
        }
        let Some((number, id, topic)) = process.look_ups.pop_front() else { return };
        let Some(producer) = process.producer.as_mut().filter(|one| one.number == number) else {
            return;
        };
        let answer = if self.kafka.missing_until[topic].is_some() {
            Err(Failure::new(Code::TopicMissing, "the topic does not exist"))
        } else {
            producer.bind(id, topic);
            let partitions = NonZeroI32::new(PARTITIONS).expect("some");
            Ok(TopicFacts { partitions, max_message_bytes: None })
        };
        self.input(slot, PollInput::Topic(id, answer));
    }

    /// A statement whose connection is gone may still be carried out.
    pub(super) fn may_come_late(&mut self, process: u64, statement: OrphanStatement) {
        if self.random.one_in(2) {
            let due = self.at + self.some_time(LATE);
            self.orphans.push(Orphan { due, process, statement });
        }
    }

    /// Carries out what nobody waits for.
    pub(super) fn carry_out_orphans(&mut self) {
        let due: Vec<Orphan> =
            self.orphans.extract_if(.., |orphan| orphan.due <= self.at).collect();
        for Orphan { process, statement, .. } in due {
            if self.database_down_until.is_some() {
                continue;
            }
            self.trace(|| format!("a statement of {process} is carried out late"));
            match statement {
                OrphanStatement::Lease(number, request) => {
                    if self.leases.is_next(process, number) {
                        self.lease((process, number), &request);
                    }
                }
                // Its connection was not lost for the server.
                OrphanStatement::Rows(statement, session) => {
                    self.statement((process, session), &statement);
                }
            }
        }
    }

    /// PostgreSQL crashes: open transactions are rolled back, and nothing is answered.
    pub(super) fn crash_database(&mut self, back_at: Moment) {
        self.database_down_until = Some(back_at);
        while self.tables.open() > 0 {
            self.tables.roll_back(0);
        }
        for slot in 0..SLOTS {
            // Some of what was asked is committed before, and only the answer is lost.
            if self.random.one_in(2) {
                self.database_down_until = None;
                self.carry_out_statement(slot);
                self.carry_out_lease(slot);
                self.database_down_until = Some(back_at);
            }
            self.carry_out_statement(slot);
            self.carry_out_lease(slot);
            let is_lost = self.random.one_in(2);
            let Some(process) = &mut self.slots[slot].process else { continue };
            if is_lost && let Some(asked) = &mut process.lease {
                asked.call = Call::Answered(Err(Self::unreachable_server()));
            }
            if is_lost
                && let Some(Asked { call: Call::Answered(answer), .. }) = &mut process.statement
            {
                *answer = match answer {
                    StatementAnswer::Described(table, _) => {
                        StatementAnswer::Described(*table, Err(Self::unreachable_server()))
                    }
                    StatementAnswer::Fetched(_) => {
                        StatementAnswer::Fetched(Err(Self::unreachable_server()))
                    }
                    StatementAnswer::Settled(_) => {
                        StatementAnswer::Settled(Err(Self::unreachable_server()))
                    }
                };
            }
        }
        self.lose_commits();
    }

    /// Every connection is lost, and so are the last commits, which did not wait for the disk: the
    /// next transactions have their numbers.
    fn lose_commits(&mut self) {
        for process in self.slots.iter_mut().filter_map(|slot| slot.process.as_mut()) {
            process.session = process.session.next();
        }
        self.orphans.retain(|one| !matches!(one.statement, OrphanStatement::Rows(..)));
        let rows = self.tables.rows().iter().enumerate();
        let pending = rows.filter(|(_, row)| row.is_visible() && row.state == RowState::Pending);
        let pending: Vec<usize> = pending.map(|(number, _)| number).collect();
        if self.plan.changes == Changes::None {
            return;
        }
        for row in pending {
            if self.random.one_in(2) {
                self.tables.write_under_lost_number(row);
                self.trace(|| format!("the commit that wrote row {row} is lost"));
            }
        }
    }
}
