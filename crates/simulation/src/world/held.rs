//! The table of held events: the requests of the routers, which end at any time and may end without
//! an answer, and what the routers produce of what is released.

use relay::{
    Code, Failure, Input,
    held::{HeldAnswer, HeldRequest},
};

use super::World;
use crate::{
    checker::Origin,
    history::RowKind,
    kafka::TopicPartition,
    postgres::ServerPhase,
    router::{PendingHeld, SimulatedRouter},
};

/// The most bytes that a topic takes, in plans with dead letters.
const TOPIC_LIMIT: usize = 2_000;
/// A broker refuses a batch as a whole; it has so many records at most.
const BATCH: usize = 3;

impl World {
    pub(super) fn has_dead_letters(&self) -> bool {
        self.plan.dead_letters.is_some()
    }

    pub(super) fn begin_dead_letters(&mut self) {
        let Some(letters) = self.plan.dead_letters else { return };
        if self.has_letters_topic() {
            self.kafka.create_letters_topic(self.plan.partitions);
        }
        self.kafka.limit_topics(TOPIC_LIMIT);
        let codes = RowKind::POISON.into_iter().filter_map(RowKind::code);
        self.causes.extend(codes.filter(|code| letters.takes(*code)));
        if letters.limits != relay::HeldLimits::default() {
            self.causes.insert(Code::HeldFull);
        }
    }

    /// The core asks the table.
    pub(super) fn ask_table(&mut self, router: usize, number: u64, request: HeldRequest) {
        let process = &mut self.routers[router];
        process.last_held = number;
        process.held.push_back((number, PendingHeld::Asked(request)));
    }

    /// The oldest request ends, or its answer arrives.
    pub(super) fn answer_held(&mut self, router: usize) {
        if !self.routers[router].runs() {
            return;
        }
        let Some((number, pending)) = self.routers[router].held.pop_front() else { return };
        let answer = match pending {
            PendingHeld::Ended(answer) => answer,
            PendingHeld::Asked(_) if !self.has_dead_letters() => Ok(HeldAnswer::Absent),
            PendingHeld::Asked(request) => {
                let answer = self.carry_out(router, request);
                if self.random.one_in(3) {
                    let ended = (number, PendingHeld::Ended(answer));
                    self.routers[router].held.push_front(ended);
                    return;
                }
                answer
            }
        };
        if let Ok(HeldAnswer::Loaded(loaded)) = &answer {
            self.coverage.held.known += u64::try_from(loaded.known.len()).unwrap_or(u64::MAX);
        }
        let loads = matches!(answer, Ok(HeldAnswer::Absent | HeldAnswer::Loaded(_)));
        let is_last = number == self.routers[router].last_held;
        let before = self.stream_to_begin(router).filter(|_| loads && is_last);
        let is_refused = matches!(&answer, Err(failure) if failure.code == Code::SlotInUse);
        let unread = self.unread_error(router).filter(|_| is_refused && is_last);
        self.input(router, Input::Held(number, answer));
        self.check_error_is_read(router, unread);
        if before.is_some() && before == self.stream_to_begin(router) {
            self.check_session_begin(router);
        }
    }

    /// The server carries a request out, unless the connection breaks before. It may also break
    /// after, so that nobody knows. Nothing is carried out for a router whose walsender does not
    /// hold the slot, and nothing before every earlier request has ended.
    fn carry_out(&mut self, router: usize, request: HeldRequest) -> Result<HeldAnswer, Failure> {
        let broken = || Err(Failure::new(Code::ServerUnreachable, "the table does not answer"));
        if self.server.phase != ServerPhase::Up || self.is_cut_off {
            return broken();
        }
        self.end_orphans();
        let holder = self.server.holder().map(|holder| holder.id);
        if holder.is_none() || holder != self.routers[router].connection {
            return Err(Failure::new(Code::SlotInUse, "this router does not hold the slot"));
        }
        let is_write = matches!(request, HeldRequest::Insert(_) | HeldRequest::Close { .. });
        match self.random.below(if self.held.is_over { 60 } else { 20 }) {
            0 => return broken(),
            1 => {
                if is_write {
                    self.server.held.orphans.push(request);
                }
                return broken();
            }
            2 if is_write => {
                self.execute(request);
                return broken();
            }
            _ => {}
        }
        Ok(self.execute(request))
    }

    fn execute(&mut self, request: HeldRequest) -> HeldAnswer {
        self.check_held_request(&request);
        let what = format!("{request:?}");
        let answer = self.server.ask_held_table(request);
        self.checker.advance_past_accepted(&self.server.history);
        self.trace(|| format!("the table: {what:.300} → {answer:?}"));
        answer
    }

    /// What runs at the server without a connection ends: it has taken effect, or never will.
    pub(super) fn end_orphans(&mut self) {
        for request in std::mem::take(&mut self.server.held.orphans) {
            if self.random.one_in(2) {
                self.execute(request);
            }
        }
    }

    /// A process is gone, and its request to the table may go on.
    pub(super) fn orphan_request(&mut self, router: usize) {
        let front = self.routers[router].held.pop_front();
        let Some((_, PendingHeld::Asked(request))) = front else { return };
        let holder = self.server.holder().map(|holder| holder.id);
        let is_write = matches!(request, HeldRequest::Insert(_) | HeldRequest::Close { .. });
        let is_running = holder.is_some() && holder == self.routers[router].connection;
        if is_write && is_running && self.server.phase == ServerPhase::Up {
            self.server.held.orphans.push(request);
        }
    }

    /// Lets the core produce what is released.
    pub(super) fn release(&mut self, router: usize) {
        let process = &self.routers[router];
        if !process.runs() || !process.relay.has_release() {
            return;
        }
        let now = self.now();
        let done = self.run_in_process(router, |process| {
            let SimulatedRouter { relay, producer, .. } = process;
            if let Some(producer) = producer {
                relay.release(now, producer);
            }
        });
        self.check_produced_records(router, Origin::Release);
        if done.is_some() {
            self.act(router);
        }
    }

    /// Whether the broker refuses the next batch to a partition, because of any of its records.
    pub(super) fn is_batch_refused(
        &mut self,
        router: usize,
        topic_partition: TopicPartition,
    ) -> bool {
        if self.held.refused.is_empty() {
            return false;
        }
        let records = 1 + self.random.index(BATCH);
        let Some(producer) = &self.routers[router].producer else { return false };
        let mut batch = producer.batch(topic_partition, records);
        let is_refused = batch.any(|number| self.held.refused.contains(&number));
        if is_refused {
            self.coverage.held.refusals += 1;
        }
        is_refused
    }
}
