//! What the shell does: carries out the core's actions, and brings it frames and inputs. A failpoint may end the process
//! in the middle of any of it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use relay::{
    Action, Code, Failure, Input, Lsn, Outcome, ServerNotice, Step, TopicName,
    bug::{self, Bug},
    failpoint::{self, Failpoint},
    source::{Expectations, Obstacle, judge},
};

use super::{Call, World};
use crate::{
    coverage::Killed,
    invariant::Invariant,
    kafka::Producer,
    postgres::{
        Connection, Phase, Postgres, Slot, Wire,
        facts::{self, PUBLICATION, SLOT},
    },
    router::{Job, ROW_BYTES, Router},
};

/// Updates a second that say nothing new, before they count as a storm.
const IDLE_UPDATES_MAX: u32 = 12;
/// Attempts to connect in one second, before they count as a storm.
const ATTEMPTS_MAX: u32 = 25;

impl World {
    /// Runs a part of a process; `None` when a failpoint has ended it there.
    pub(super) fn within<T>(
        &mut self,
        router: usize,
        part: impl FnOnce(&mut Router) -> T,
    ) -> Option<T> {
        let process = &mut self.routers[router];
        match catch_unwind(AssertUnwindSafe(|| part(process))) {
            Ok(result) => Some(result),
            Err(thrown) => match thrown.downcast::<Killed>() {
                Ok(killed) => {
                    self.coverage.kill(killed.0);
                    self.kill(router);
                    None
                }
                Err(panic) => resume_unwind(panic),
            },
        }
    }

    pub(super) fn input(&mut self, router: usize, input: Input<'_>) {
        let now = self.now();
        if !matches!(input, Input::Tick) {
            self.tell(|| format!("router {router} ← {input:?}"));
        }
        let alive = self.within(router, |process| {
            process.relay.handle(input, now);
            process.relay.deadline()
        });
        let Some(deadline) = alive else { return };
        if deadline.is_some_and(|deadline| deadline <= self.at) {
            self.judge.accuse(Invariant::I8Slot, || {
                "a deadline that has passed makes the shell spin".to_owned()
            });
        }
        self.act(router);
    }

    /// As a shell does on every event: acknowledgements, frames, then the time.
    pub(super) fn wake(&mut self, router: usize) {
        self.acknowledge(router, 16);
        self.read(router, 16);
        self.input(router, Input::Tick);
    }

    /// Carries out what the core asks for.
    pub(super) fn act(&mut self, router: usize) {
        while let Some(action) = self.routers[router].relay.next_action() {
            self.tell(|| format!("router {router} → {action:?}"));
            match action {
                Action::Connect => self.begin(router, Job::Connect),
                Action::WatchSlot => self.begin(router, Job::WatchSlot),
                Action::Disconnect => self.disconnect(router),
                Action::Status(update) => {
                    if !self.send_status(router, update.flush.lsn(), update.write) {
                        return;
                    }
                    if update.reply == relay::ReplyRequest::Requested {
                        self.answer_question(router);
                    }
                }
                Action::CopyDone => {
                    if let Some(id) = self.routers[router].connection {
                        self.server.say_goodbye(id);
                    }
                }
                Action::ReplaceSink => self.destroy_producer(router),
                Action::LookUpTopic(id, name) => self.ask(router, id, &name),
                Action::Exit(outcome) => {
                    self.leave(router, outcome);
                    return;
                }
            }
        }
    }

    fn begin(&mut self, router: usize, job: Job) {
        let second = self.at.since_origin().as_secs();
        let process = &mut self.routers[router];
        process.job = job;
        if process.attempts.0 != second {
            process.attempts = (second, 0);
        }
        process.attempts.1 += 1;
        if process.attempts.1 > ATTEMPTS_MAX {
            self.judge.accuse(Invariant::I8Slot, || {
                format!("{ATTEMPTS_MAX} attempts to connect within a second")
            });
        }
    }

    fn disconnect(&mut self, router: usize) {
        let process = &mut self.routers[router];
        process.job = Job::None;
        let session = process.session;
        if let Some(id) = process.connection.take() {
            self.server.close(id);
        }
        self.judge.session_ends(session);
    }

    /// Whether the process outlives it.
    fn send_status(&mut self, router: usize, flush: Lsn, write: Lsn) -> bool {
        let now = self.at;
        let sent = self.within(router, |process| {
            failpoint::reached(Failpoint::BeforeStatus);
            process.word.told(flush, now);
            process.connection
        });
        let Some(connection) = sent else { return false };
        let furthest = &mut self.routers[router].furthest;
        *furthest = (*furthest).max(flush.as_u64());
        if let Some(id) = connection {
            self.deliver_status(router, id, flush.as_u64(), write.as_u64());
        }
        self.within(router, |_| failpoint::reached(Failpoint::AfterStatus)).is_some()
    }

    fn deliver_status(&mut self, router: usize, id: u64, flush: u64, write: u64) {
        let session = self.routers[router].session;
        let second = self.at.since_origin().as_secs();
        let at = self.at;
        let confirmed = self.server.confirmed();
        let arrives = self.server.connection(id).filter(|one| one.is_served && !one.is_swallowed);
        let Some(connection) = arrives else {
            self.lost_word = self.lost_word.max(flush);
            self.judge.tells(session, flush);
            return;
        };
        connection.heard_at = at;
        connection.is_asked = false;
        let is_news = flush > confirmed || write > connection.written;
        connection.written = connection.written.max(write);
        if connection.updates.0 != second {
            connection.updates = (second, 0);
        }
        connection.updates.1 += u32::from(!is_news);
        if connection.updates.1 > IDLE_UPDATES_MAX {
            self.judge.accuse(Invariant::I8Slot, || "a storm of status updates".to_owned());
        }
        if let Phase::Stopping { .. } = self.server.phase {
            // It asks again, and again.
            let Postgres { connections, history, .. } = &mut self.server;
            if let Some(connection) = connections.iter_mut().find(|one| one.id == id) {
                connection.ask(history);
            }
        }
        if flush > 0 {
            self.judge.confirmed(&self.server.history, session, confirmed, flush);
            let takes_back = self.plan.generation == crate::plan::Generation::Old;
            if let Some(slot) = &mut self.server.slot {
                slot.confirmed = if takes_back { flush } else { slot.confirmed.max(flush) };
            }
            self.server.peak = self.server.peak.max(flush);
        }
    }

    fn answer_question(&mut self, router: usize) {
        let Some(id) = self.routers[router].connection else { return };
        let Postgres { connections, history, .. } = &mut self.server;
        let asked = connections.iter_mut().find(|one| one.id == id && one.is_served);
        if let Some(connection) = asked {
            connection.answer(history);
        }
    }

    fn destroy_producer(&mut self, router: usize) {
        let process = &mut self.routers[router];
        process.asked.clear();
        if let Some(producer) = process.producer.take()
            && self.random.one_in(2)
        {
            self.kafka.ghosts.extend(producer.into_ghosts());
        }
    }

    fn ask(&mut self, router: usize, id: relay::TopicId, name: &TopicName) {
        let place = self.kafka.topics.iter().position(|topic| topic.name == name.as_str());
        let process = &mut self.routers[router];
        let Some(place) = place else { return };
        if process.topic(id).is_none() {
            process.topics.push((id, place));
        }
        if process.producer.is_some() {
            process.asked.push_back((id, place));
        }
    }

    fn leave(&mut self, router: usize, outcome: Outcome) {
        let process = &self.routers[router];
        if process.takes_leave && outcome == Outcome::Drained {
            let confirmed = self.server.confirmed();
            self.judge.drained(&self.server.history, process.session, confirmed);
        } else {
            self.judge.interrupted();
        }
        self.start_anew(router);
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self, router: usize) {
        self.tell(|| format!("router {router} is killed"));
        self.judge.interrupted();
        self.start_anew(router);
    }

    fn start_anew(&mut self, router: usize) {
        self.count_errors(router);
        self.judge.session_ends(self.routers[router].session);
        // A host that crashes says no goodbye.
        let is_told = !self.random.one_in(4);
        let connections = self.server.connections.iter();
        let ours: Vec<u64> = connections.filter(|c| c.router == router).map(|c| c.id).collect();
        for id in ours {
            if is_told {
                self.server.close(id);
            } else {
                self.server.abandon(id);
            }
        }
        self.destroy_producer(router);
        let seed = self.random.next_number();
        self.processes += 1;
        let number = self.processes;
        self.routers[router] = Router::start(number, self.plan.window, seed, self.at);
    }

    /// Offers frames until the core wants no more.
    pub(super) fn read(&mut self, router: usize, frames: u64) {
        if !self.routers[router].runs() {
            return;
        }
        for _ in 0..frames {
            let process = &self.routers[router];
            let Some(id) = process.connection.filter(|_| process.relay.wants_wal()) else { return };
            let Some(next) = self.server.wire(id).and_then(std::collections::VecDeque::pop_front)
            else {
                self.notice_end(router, id);
                return;
            };
            match next {
                Wire::Frame(frame) => {
                    if !self.offer(router, id, frame) {
                        return;
                    }
                }
                Wire::Oversized(prefix) => {
                    let now = self.now();
                    let step = self.within(router, |process| {
                        process.relay.oversized(ROW_BYTES + prefix.len(), &prefix, now)
                    });
                    let Some(step) = step else { return };
                    if step == Step::Held
                        && let Some(connection) = self.server.connection(id)
                    {
                        connection.wire.push_front(Wire::Oversized(prefix));
                    }
                    self.act(router);
                    if step == Step::Held {
                        return;
                    }
                }
                Wire::Warning => {
                    let notice = ServerNotice {
                        code: "55000".to_owned(),
                        message: "skipped loading publication".to_owned(),
                    };
                    self.input(router, Input::Notice(&notice));
                }
                Wire::Refused(code) => {
                    self.broken(router, id, code);
                    return;
                }
                Wire::Done => {
                    let process = &mut self.routers[router];
                    process.takes_leave = self
                        .server
                        .connection(id)
                        .is_some_and(|connection| connection.said_goodbye && connection.is_served);
                    process.connection = None;
                    self.server.close(id);
                    self.input(router, Input::StreamEnded);
                    return;
                }
            }
        }
    }

    /// Whether the frame was taken.
    fn offer(&mut self, router: usize, id: u64, frame: Vec<u8>) -> bool {
        let now = self.now();
        let step = self.within(router, |process| {
            let Router { relay, producer, .. } = process;
            let Some(producer) = producer else { return Step::Held };
            relay.frame(&frame, now, producer)
        });
        self.tell(|| {
            format!("router {router} reads {}: {step:?}", crate::postgres::describe(&frame))
        });
        self.look_at_what_was_taken(router);
        let Some(step) = step else { return false };
        if step == Step::Held
            && let Some(connection) = self.server.connection(id)
        {
            connection.wire.push_front(Wire::Frame(frame));
        }
        self.act(router);
        step == Step::Taken
    }

    fn look_at_what_was_taken(&mut self, router: usize) {
        let Router { producer: Some(producer), session, .. } = &mut self.routers[router] else {
            return;
        };
        for taken in producer.taken.drain(..) {
            self.judge.produced(&self.server.history, &self.kafka, *session, &taken);
        }
    }

    /// Nothing is left to be read: perhaps because nobody writes any more.
    fn notice_end(&mut self, router: usize, id: u64) {
        let ended = self
            .server
            .connection(id)
            .filter(|connection| !connection.is_served && !connection.is_swallowed);
        if let Some(code) = ended.map(|connection| connection.ended_by) {
            self.broken(router, id, code);
        }
    }

    /// Whoever waits at an empty socket hears of its end at once.
    pub(super) fn notice_ends(&mut self) {
        for router in 0..self.routers.len() {
            let process = &self.routers[router];
            let Some(id) =
                process.connection.filter(|_| process.runs() && process.relay.wants_wal())
            else {
                continue;
            };
            let waits = |one: &&mut Connection| !one.is_swallowed && one.wire.is_empty();
            let Some(connection) = self.server.connection(id).filter(waits) else {
                continue;
            };
            if !connection.is_served {
                self.notice_end(router, id);
            }
        }
    }

    pub(super) fn broken(&mut self, router: usize, id: u64, code: Code) {
        self.routers[router].connection = None;
        self.server.close(id);
        self.input(router, Input::Disconnected(Failure::new(code, "the connection ended")));
    }

    /// What was begun beside the core is done.
    pub(super) fn finish_job(&mut self, router: usize) {
        match std::mem::replace(&mut self.routers[router].job, Job::None) {
            Job::None => {}
            Job::Connect => self.finish_connecting(router),
            Job::WatchSlot => match self.server.phase {
                Phase::Down { .. } => {
                    let failure = Failure::new(Code::ServerUnreachable, "refused");
                    self.input(router, Input::Disconnected(failure));
                }
                Phase::Up | Phase::Stopping { .. } if self.server.holder().is_none() => {
                    self.input(router, Input::SlotFree);
                }
                Phase::Up | Phase::Stopping { .. } => {
                    self.routers[router].job = Job::WatchSlot;
                }
            },
        }
    }

    fn finish_connecting(&mut self, router: usize) {
        let refusal = match self.server.phase {
            Phase::Down { .. } => Some(Code::ServerUnreachable),
            Phase::Stopping { .. } => Some(Code::ServerNotReady),
            Phase::Up if self.call != Call::Wrong => None,
            Phase::Up => self.random.one_in(8).then_some(Code::ServerUnreachable),
        };
        if let Some(code) = refusal {
            self.input(router, Input::Disconnected(Failure::new(code, "refused")));
            return;
        }
        if bug::is(Bug::RecreateSlot) && self.server.slot.is_none() {
            self.server.slot = Some(Slot::at(self.server.history.end_of_wal));
            self.routers[router].word.forget();
        }
        let process = &self.routers[router];
        let expected = Expectations {
            slot: SLOT.to_owned(),
            publication: PUBLICATION.to_owned(),
            outboxes: facts::outboxes(),
            confirmed: process.word.holds(self.at),
            furthest: process.word.furthest(),
            earlier: process.baseline.clone(),
        };
        let look = self.server.slot_look();
        match judge(&expected, self.server.server(), &look, self.server.catalog_look()) {
            Err(Obstacle::SlotInUse { pid }) => {
                self.routers[router].word.forget();
                self.routers[router].has_seen_another = true;
                self.input(router, Input::SlotHeld(Some(pid)));
            }
            Err(Obstacle::Gap(gap)) => self.input(router, Input::Disconnected(gap.failure)),
            Err(Obstacle::Failed(failure)) => self.input(router, Input::Disconnected(failure)),
            Ok(baseline) => {
                let end = self.server.history.end_of_wal;
                if self.routers[router].furthest > end {
                    self.judge.accuse(Invariant::I11Loudness, || {
                        format!(
                            "streams from a server whose WAL ends at {end}, before what it was told"
                        )
                    });
                }
                self.start_streaming(router, baseline);
            }
        }
    }

    fn start_streaming(&mut self, router: usize, baseline: relay::source::Baseline) {
        let id = self.server.connect(router, self.at);
        let slot_at = baseline.confirmed();
        let at = self.at;
        let alive = self.within(router, |process| {
            failpoint::reached(Failpoint::SlotChecked);
            failpoint::reached(Failpoint::Connected);
            process.word.found(slot_at, at);
            process.baseline = Some(baseline);
            process.connection = Some(id);
            failpoint::reached(Failpoint::ReplicationStarted);
        });
        if alive.is_none() {
            return;
        }
        let confirmed = self.server.confirmed();
        // Confirmed before a crash, or on a connection that did not carry it.
        let known = self.history().serial_past(self.server.peak.max(self.lost_word));
        let excused = known.saturating_sub(self.history().serial_past(confirmed));
        let session = self.judge.session_begins(&self.server.history, confirmed, excused);
        self.coverage.sessions += 1;
        let process = &mut self.routers[router];
        process.session = session;
        process.has_seen_another = false;
        if let Some(producer) = &mut process.producer {
            producer.session = session;
        }
        self.input(router, Input::SlotAt(slot_at));
        self.input(router, Input::Connected);
    }

    /// The first producer, or a new one.
    pub(super) fn finish_producer(&mut self, router: usize) {
        if self.routers[router].producer.is_none() {
            // Sometimes the queue is smaller than the window, sometimes the other way round.
            let mut producer = Producer::new(self.plan.queue);
            producer.session = self.routers[router].session;
            self.routers[router].producer = Some(producer);
            self.input(router, Input::SinkReady);
        }
    }
}
