//! What the product's shell does: it carries actions out, and gives answers to the core. It decides
//! nothing.

use std::{rc::Rc, time::Duration};

use relay::{
    Acks, Code, Failure, Moment, Now,
    polling::{PollAction, PollInput, Poller, Produced, ShardSet},
};

use super::{OrphanStatement, PollingWorld, faults::stopped_for};
use crate::{
    invariant::Invariant,
    polling::{
        checker::Handing,
        plan::LEASE_LENGTH,
        process::{Asked, Call, Process, Statement, StatementAnswer},
        producer::PolledProducer,
        shape,
    },
};

/// How often a core may ask for something while no time passes and no row is read or marked.
const REQUESTS_MAX: u32 = 200;
/// How long it takes to make a producer.
const MAKING_A_PRODUCER: Duration = Duration::from_millis(20);

impl PollingWorld {
    /// Starts a process.
    pub(super) fn start(&mut self, slot: usize) {
        let number = u64::try_from(self.processes.len()).expect("a few") + 1;
        let tables = self.plan.tables_of(slot);
        self.processes.insert(number, tables.clone());
        let seed = self.random.next_number();
        let core = Poller::new(self.plan.settings(seed, &tables), self.at);
        self.slots[slot].process = Some(Process::start(number, core, tables));
        self.slots[slot].start_at = None;
        self.trace(|| format!("process {number} starts"));
        self.drive(slot);
    }

    /// Gives an input to the core, and does what follows.
    pub(super) fn input(&mut self, slot: usize, input: PollInput<'_>) {
        let now = self.now();
        if let Some(process) = &mut self.slots[slot].process {
            if process.stop_asked_at.is_none()
                && let PollInput::Shutdown = input
            {
                process.stop_asked_at = Some(now.at);
            }
            process.core.handle(input, now);
        }
        self.drive(slot);
    }

    /// Carries actions out and offers rows, until nothing follows.
    pub(super) fn drive(&mut self, slot: usize) {
        loop {
            let mut has_acted = false;
            while let Some(process) = &mut self.slots[slot].process
                && process.runs()
                && let Some(action) = process.core.next_action()
            {
                has_acted = true;
                process.requests += 1;
                if process.requests > REQUESTS_MAX {
                    let number = process.number;
                    self.slots[slot].process = None;
                    return self.checker.report(Invariant::W6Rest, || {
                        format!("{number} asks without end, lastly for {action:?}")
                    });
                }
                self.carry_out(slot, action);
            }
            let produced = self.produce(slot);
            if !has_acted && produced == Produced::AllForNow {
                break;
            }
        }
        let at = self.at;
        if let Some(process) = &mut self.slots[slot].process {
            process.wake_at = process.core.deadline(at);
        }
    }

    fn carry_out(&mut self, slot: usize, action: PollAction) {
        let at = self.at;
        let Some(process) = &mut self.slots[slot].process else { return };
        let number = process.number;
        match action {
            PollAction::Describe(table) => self.ask(slot, Statement::Describe(table)),
            PollAction::Fetch(request) => self.ask(slot, Statement::Fetch(request)),
            PollAction::Settle(request) => {
                if let Some(length) = process.cut_off_at_marks.take() {
                    self.cut_off(slot, length);
                }
                self.ask(slot, Statement::Settle(request));
            }
            PollAction::Lease(request) => {
                if process.lease.is_some() {
                    self.checker.report(Invariant::W6Rest, || "two lease requests".to_owned());
                } else {
                    process.lease_number = process.lease_number.next();
                    process.lease = Some(Asked { at, call: Call::Asked(request.clone()) });
                }
                self.trace(|| format!("{number} asks {request:?}"));
            }
            PollAction::ReplaceSink { wait } => {
                self.trace(|| format!("{number} replaces its producer after {wait:?}"));
                self.purge(slot);
                if let Some(process) = &mut self.slots[slot].process {
                    process.producer_at = Some(at + wait + MAKING_A_PRODUCER);
                }
            }
            PollAction::LookUpTopic(id, name) => {
                let topic = shape::topic_named(name.as_str()).expect("a topic of the simulation");
                if let Some(producer) = &process.producer {
                    process.look_ups.push_back((producer.number, id, topic));
                }
            }
            PollAction::Exit(reason) => self.exit(slot, reason),
        }
    }

    fn ask(&mut self, slot: usize, statement: Statement) {
        let at = self.at;
        let Some(process) = &mut self.slots[slot].process else { return };
        let number = process.number;
        if process.statement.is_some() {
            return self.checker.report(Invariant::W6Rest, || "two statements".to_owned());
        }
        let statement = process.named(statement);
        process.statement = Some(Asked { at, call: Call::Asked(statement.clone()) });
        self.check_reading(slot, &statement);
        self.trace(|| format!("{number} asks {statement:?}"));
    }

    /// Destroys the producer. What has left its socket may still be stored.
    pub(super) fn purge(&mut self, slot: usize) {
        let keeps_stale = self.random.one_in(4);
        let Some(process) = &mut self.slots[slot].process else { return };
        process.look_ups.clear();
        if let Some(producer) = process.producer.take() {
            let (strays, stale) = producer.into_remains();
            self.kafka.strays.extend(strays);
            if keeps_stale {
                process.stale.extend(stale);
            }
        }
    }

    /// The next producer is there.
    pub(super) fn producer_is_made(&mut self, slot: usize) {
        self.producers += 1;
        let (number, queue) = (self.producers, self.plan.queue);
        let Some(process) = &mut self.slots[slot].process else { return };
        process.producer_at = None;
        process.producer = Some(PolledProducer::new(number, process.number, queue));
        self.input(slot, PollInput::SinkReady);
    }

    fn produce(&mut self, slot: usize) -> Produced {
        let now = self.now();
        let Some(process) = self.slots[slot].process.as_mut().filter(|process| process.runs())
        else {
            return Produced::AllForNow;
        };
        let Some(producer) = &mut process.producer else { return Produced::AllForNow };
        producer.now = now.at;
        // The time at which the process goes on, if it is stopped amid the pass.
        let is_frozen = Rc::clone(&producer.is_frozen);
        let is_to_freeze = producer.freeze_after.is_some();
        let frozen_for = if is_to_freeze { stopped_for(&mut self.random) } else { Duration::ZERO };
        let later = Now { at: now.at + frozen_for, ..now };
        let clock = || if is_frozen.get() { later } else { now };
        let produced = process.core.produce(producer, clock);
        let by = Handing { process: process.number, producer: producer.number };
        let handed_over = std::mem::take(&mut producer.handed_over);
        let is_frozen = is_frozen.replace(false);
        if is_frozen {
            producer.freeze_after = None;
            process.frozen_until = Some(later.at);
        }
        for handed in handed_over {
            self.checker.handed_over(by, &handed, &self.tables, &self.leases);
            self.check_copies(by.process, handed.row);
            self.trace(|| format!("{} produces row {}", by.process, handed.row));
        }
        if is_frozen {
            self.trace(|| format!("{} is frozen amid a pass", by.process));
            return Produced::AllForNow;
        }
        produced
    }

    /// Takes acknowledgements, and the failure behind them.
    pub(super) fn collect(&mut self, slot: usize) {
        let most = 1 + self.random.index(8);
        self.collect_some(slot, most);
    }

    /// Takes every acknowledgement, and the failure behind them.
    pub(super) fn collect_all(&mut self, slot: usize) {
        self.collect_some(slot, usize::MAX);
    }

    fn collect_some(&mut self, slot: usize, most: usize) {
        let takes_stale = self.random.one_in(4);
        let broker = self
            .kafka
            .down_until
            .map(|_| Failure::new(Code::KafkaUnreachable, "no broker can be reached"));
        let Some(process) = self.slots[slot].process.as_mut().filter(|process| process.runs())
        else {
            return;
        };
        let mut acks = Acks::default();
        if takes_stale {
            process.stale.drain(..).for_each(|(ticket, topic)| acks.push(ticket, topic));
        }
        let mut failure = None;
        if let Some(producer) = &mut process.producer {
            producer
                .take_acks(most)
                .into_iter()
                .for_each(|(ticket, topic)| acks.push(ticket, topic));
            failure = producer.take_failure();
        }
        if !acks.is_empty() {
            self.input(slot, PollInput::Acks(&acks));
        }
        if let Some((transaction, failure)) = failure {
            self.trace(|| format!("the producer of slot {slot} fails: {failure}"));
            self.input(slot, PollInput::DeliveryFailed { transaction, failure });
        }
        self.input(slot, PollInput::BrokersUnreachable(broker));
    }

    /// Gives the answer to the lease request to the core, if there is one.
    pub(super) fn deliver_lease(&mut self, slot: usize) {
        let Some(process) = self.slots[slot].process.as_mut().filter(|process| process.runs())
        else {
            return;
        };
        if let Some(Asked { call: Call::Answered(_), .. }) = process.lease
            && let Some(Asked { call: Call::Answered(answer), .. }) = process.lease.take()
        {
            if let Ok(leases) = &answer {
                process.workers = leases.tables.iter().map(|table| table.workers).collect();
            }
            self.trace(|| format!("slot {slot} is told {answer:?}"));
            let before = self.shards(slot);
            self.input(slot, PollInput::Leased(answer));
            if self.shards(slot).iter().zip(before).any(|(now, before)| !now.is_within(before)) {
                // Nothing was read of these yet.
                self.may_read_soon(slot);
            }
        }
    }

    /// What a worker believes to hold, of each of its tables.
    fn shards(&self, slot: usize) -> Vec<ShardSet> {
        let Some(process) = &self.slots[slot].process else { return Vec::new() };
        process.core.report(self.at).tables.iter().map(|table| table.shards).collect()
    }

    /// Gives the answer to the statement to the core, if there is one.
    pub(super) fn deliver_statement(&mut self, slot: usize) {
        if self.is_reading(slot) {
            return;
        }
        let Some(process) = self.slots[slot].process.as_mut().filter(|process| process.runs())
        else {
            return;
        };
        if let Some(Asked { call: Call::Answered(_), .. }) = process.statement
            && let Some(Asked { call: Call::Answered(answer), at }) = process.statement.take()
        {
            let input = match answer {
                StatementAnswer::Described(table, answer) => {
                    let place = process.place_of(table.0).expect("it has asked for the table");
                    PollInput::Described(place, answer)
                }
                StatementAnswer::Fetched(answer) => {
                    let rows = answer.as_ref().map_or(0, |fetched| fetched.rows.len());
                    self.was_read(slot, rows, at);
                    PollInput::Fetched(answer)
                }
                StatementAnswer::Settled(answer) => PollInput::Settled(answer),
            };
            self.input(slot, input);
        }
    }

    /// The lease request was not answered in time.
    pub(super) fn give_up_lease_request(&mut self, slot: usize) {
        let Some(process) = &mut self.slots[slot].process else { return };
        let (number, asked) = (process.number, process.lease_number);
        if let Some(Asked { call: Call::Asked(request), .. }) = process.lease.take() {
            self.may_come_late(number, OrphanStatement::Lease(asked, request));
        }
        self.trace(|| format!("{number} waits no longer for its leases"));
        self.input(slot, PollInput::Leased(Err(Self::unreachable_server())));
    }

    /// When the shell waits no longer for the answer to a lease request.
    pub(super) fn lease_answer_due(process: &Process) -> Option<Moment> {
        process.lease.as_ref().map(|asked| asked.at + LEASE_LENGTH.renewal())
    }
}
