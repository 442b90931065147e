//! What the shell does: brings inputs to the core and carries its actions out. A failpoint may end
//! the process at any place in it. Frames are read in `reading`, requests to the server are
//! answered in `connecting`.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::Duration,
};

use relay::{
    Action, ExitReason, Input, Lsn, Moment, TopicName,
    failpoint::{self, Failpoint},
};

use super::World;
use crate::{
    coverage::Killed,
    invariant::Invariant,
    postgres::{ServerPhase, SimulatedPostgres},
    router::{PendingRequest, SimulatedRouter, settings},
};

/// Status updates without a new position in one second before they count as too many.
const IDLE_UPDATES_MAX: u32 = 12;
/// Attempts to connect, or producers that are created, in one second before they count as too many.
const ATTEMPTS_MAX: u32 = 25;

impl World {
    /// Runs a part of a process; `None` if a failpoint has killed the process in it.
    pub(super) fn run_in_process<T>(
        &mut self,
        router: usize,
        part: impl FnOnce(&mut SimulatedRouter) -> T,
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
            self.trace(|| format!("router {router} ← {input:?}"));
        }
        let alive = self.run_in_process(router, |process| {
            process.relay.handle(input, now);
            process.relay.deadline()
        });
        let Some(deadline) = alive else { return };
        if deadline.is_some_and(|deadline| deadline <= self.at) {
            self.checker.report_violation(Invariant::S8Slot, || {
                "the core returns a deadline that has passed, so the shell would never wait"
                    .to_owned()
            });
        }
        self.act(router);
        self.release(router);
    }

    /// One pass as in the real shell: acknowledgements, then frames, then the time.
    pub(super) fn wake(&mut self, router: usize) {
        self.acknowledge(router, 16);
        self.read(router, 16);
        self.input(router, Input::Tick);
    }

    /// Carries out the actions of the core.
    pub(super) fn act(&mut self, router: usize) {
        while let Some(action) = self.routers[router].relay.next_action() {
            self.trace(|| format!("router {router} → {action:?}"));
            match action {
                Action::ReadStateTopic(number) | Action::CheckStateTopic(number) => {
                    self.request_state_topic_read(router, number);
                }
                Action::WriteStateTopic(write) => self.write_state_topic(router, write),
                Action::Held(number, request) => self.ask_table(router, number, request),
                Action::Connect => self.begin(router, PendingRequest::Connect),
                Action::WatchSlot => self.begin(router, PendingRequest::WatchSlot),
                Action::ReadTimelines(timeline) => {
                    self.routers[router].request = PendingRequest::ReadTimelines(timeline);
                }
                Action::ReadSlot => self.routers[router].request = PendingRequest::ReadSlot,
                Action::ReadCatalog(_) => {
                    self.routers[router].request = PendingRequest::ReadCatalog;
                }
                Action::StartReplication(backlog) => {
                    self.routers[router].request = PendingRequest::StartReplication(backlog);
                }
                Action::Disconnect => self.disconnect(router),
                Action::Status(update) => {
                    if !self.send_status(router, update.flush.lsn(), update.write) {
                        return;
                    }
                    if update.reply == relay::ReplyRequest::Requested {
                        self.answer_reply_request(router);
                    }
                }
                Action::CopyDone => {
                    if let Some(id) = self.routers[router].connection {
                        self.server.receive_copy_done(id);
                    }
                }
                Action::ReplaceSink { wait } => self.replace_producer(router, wait),
                Action::LookUpTopic(id, name) => self.ask(router, id, &name),
                Action::Exit(outcome) => {
                    self.leave(router, outcome);
                    return;
                }
            }
        }
    }

    fn begin(&mut self, router: usize, request: PendingRequest) {
        let process = &mut self.routers[router];
        process.request = request;
        if count_in_second(&mut process.attempts, self.at, 1) > ATTEMPTS_MAX {
            self.checker.report_violation(Invariant::S8Slot, || {
                format!("more than {ATTEMPTS_MAX} attempts to connect within a second")
            });
        }
    }

    fn disconnect(&mut self, router: usize) {
        let process = &mut self.routers[router];
        process.request = PendingRequest::None;
        process.sql_connection = None;
        let session = process.session;
        if let Some(id) = process.connection.take() {
            self.server.close(id);
        }
        self.checker.end_session(session);
    }

    /// Sends a status update. Returns false if the process was killed on the way.
    fn send_status(&mut self, router: usize, flush: Lsn, write: Lsn) -> bool {
        let sent = self.run_in_process(router, |process| {
            failpoint::reached(Failpoint::BeforeStatus);
            process.connection
        });
        let Some(connection) = sent else { return false };
        let furthest = &mut self.routers[router].furthest;
        *furthest = (*furthest).max(flush.as_u64());
        if let Some(id) = connection {
            self.deliver_status(router, id, flush.as_u64(), write.as_u64());
        }
        self.run_in_process(router, |_| failpoint::reached(Failpoint::AfterStatus)).is_some()
    }

    fn deliver_status(&mut self, router: usize, id: u64, flush: u64, write: u64) {
        let session = self.routers[router].session;
        let at = self.at;
        let confirmed = self.server.confirmed();
        let arrives =
            self.server.connection(id).filter(|one| one.has_walsender && !one.is_black_holed);
        let Some(connection) = arrives else {
            if self.server.connection(id).is_some_and(|one| one.has_read_by_sql) {
                self.lost_beside_sql = self.lost_beside_sql.max(flush);
            }
            self.lost_status_update = self.lost_status_update.max(flush);
            self.checker.note_status_update(session, flush);
            return;
        };
        connection.last_update_at = at;
        connection.reply_requested = false;
        let is_news = flush > confirmed || write > connection.written;
        connection.written = connection.written.max(write);
        if count_in_second(&mut connection.updates, at, u32::from(!is_news)) > IDLE_UPDATES_MAX {
            self.checker.report_violation(Invariant::S8Slot, || {
                format!(
                    "more than {IDLE_UPDATES_MAX} status updates without a new position within a \
                         second"
                )
            });
        }
        if let ServerPhase::Stopping { .. } = self.server.phase {
            // A stopping server asks for the next status update at once.
            let SimulatedPostgres { connections, history, .. } = &mut self.server;
            if let Some(connection) = connections.iter_mut().find(|one| one.id == id) {
                connection.request_reply(history);
            }
        }
        if flush > 0 {
            self.checker.check_confirmed(&self.server.history, session, confirmed, flush);
            let takes_back = self.plan.version == crate::plan::VersionGroup::V13To14;
            if let Some(slot) = &mut self.server.slot {
                slot.confirmed = if takes_back { flush } else { slot.confirmed.max(flush) };
            }
            self.server.highest_confirmed = self.server.highest_confirmed.max(flush);
        }
    }

    fn answer_reply_request(&mut self, router: usize) {
        let Some(id) = self.routers[router].connection else { return };
        let SimulatedPostgres { connections, history, .. } = &mut self.server;
        let holder = connections.iter_mut().find(|one| one.id == id && one.has_walsender);
        if let Some(connection) = holder {
            connection.send_keepalive(history);
        }
    }

    fn replace_producer(&mut self, router: usize, wait: Duration) {
        self.destroy_producer(router);
        let process = &mut self.routers[router];
        process.producer_at = self.at + wait;
        if count_in_second(&mut process.given_up, self.at, 1) > ATTEMPTS_MAX {
            self.checker.report_violation(Invariant::S8Slot, || {
                format!("more than {ATTEMPTS_MAX} producers are replaced within a second")
            });
        }
    }

    fn destroy_producer(&mut self, router: usize) {
        let process = &mut self.routers[router];
        process.topic_lookups.clear();
        if let Some(producer) = process.producer.take()
            && self.random.one_in(2)
        {
            let (records, writes) = producer.into_late_batches();
            self.kafka.late_batches.extend(records);
            self.kafka.state.late_writes.extend(writes);
        }
    }

    fn ask(&mut self, router: usize, id: relay::TopicId, name: &TopicName) {
        let index = self.kafka.topics.iter().position(|topic| topic.name == name.as_str());
        let process = &mut self.routers[router];
        let Some(index) = index else { return };
        if process.topic(id).is_none() {
            process.topics.push((id, index));
        }
        if process.producer.is_some() {
            process.topic_lookups.push_back((id, index));
        }
    }

    fn leave(&mut self, router: usize, outcome: ExitReason) {
        let process = &self.routers[router];
        if process.ended_in_order && outcome == ExitReason::Drained {
            let confirmed = self.server.confirmed();
            self.checker.check_drained(&self.server.history, process.session, confirmed);
        } else {
            self.checker.note_interruption();
        }
        self.replace_process(router);
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self, router: usize) {
        self.trace(|| format!("router {router} is killed"));
        self.checker.note_interruption();
        self.replace_process(router);
    }

    fn replace_process(&mut self, router: usize) {
        self.count_errors(router);
        self.checker.end_session(self.routers[router].session);
        // A host that crashes sends no FIN.
        let sends_fin = !self.random.one_in(4);
        let connections = self.server.connections.iter();
        let ours: Vec<u64> = connections.filter(|c| c.router == router).map(|c| c.id).collect();
        for id in ours {
            if sends_fin {
                self.server.close(id);
            } else {
                self.server.abandon(id);
            }
        }
        self.destroy_producer(router);
        let seed = self.random.next_number();
        self.processes += 1;
        let number = self.processes;
        self.orphan_request(router);
        let settings = settings(number, &self.plan, seed);
        self.routers[router] = SimulatedRouter::start(number, settings, self.at);
    }
}

/// Adds to a count of what happens within one second, and returns the count.
fn count_in_second((second, count): &mut (u64, u32), at: Moment, more: u32) -> u32 {
    let now = at.since_origin().as_secs();
    if *second != now {
        (*second, *count) = (now, 0);
    }
    *count += more;
    *count
}
