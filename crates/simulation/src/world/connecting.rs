//! Answers the core's requests to the server and reads of the state topic one at a time, so that
//! anything else may happen between two of them. Nothing is checked here that the core has to
//! check.

use relay::{BacklogFrom, Code, Failure, Input, witness::Witness};

use super::World;
use crate::{
    history::TYPES, invariant::Invariant, kafka::SimulatedProducer, plan::StateTopicSetting,
    postgres::ServerPhase, router::PendingRequest,
};

impl World {
    /// The server answers the pending request.
    pub(super) fn answer_request(&mut self, router: usize) {
        let request = std::mem::replace(&mut self.routers[router].request, PendingRequest::None);
        match request {
            PendingRequest::None => {}
            PendingRequest::Connect => self.open(router),
            PendingRequest::WatchSlot => self.watch_slot(router),
            PendingRequest::ReadTimelines(_)
            | PendingRequest::ReadSlot
            | PendingRequest::ReadCatalog
            | PendingRequest::StartReplication(_) => {
                let is_whole = self.routers[router].sql_connection == Some(self.server.starts);
                if is_whole && !self.is_cut_off {
                    self.answer_on_the_connection(router, request);
                } else {
                    self.routers[router].sql_connection = None;
                    self.refuse(router, Code::ServerUnreachable);
                }
            }
        }
    }

    fn refuse(&mut self, router: usize, code: Code) {
        self.input(router, Input::Disconnected(Failure::new(code, "refused")));
    }

    fn watch_slot(&mut self, router: usize) {
        match self.server.phase {
            _ if self.is_cut_off => self.refuse(router, Code::ServerUnreachable),
            ServerPhase::Down { .. } => self.refuse(router, Code::ServerUnreachable),
            ServerPhase::Up | ServerPhase::Stopping { .. } if self.server.holder().is_none() => {
                self.input(router, Input::SlotFree);
            }
            ServerPhase::Up | ServerPhase::Stopping { .. } => {
                self.routers[router].request = PendingRequest::WatchSlot;
            }
        }
    }

    fn open(&mut self, router: usize) {
        let refusal = match self.server.phase {
            _ if self.is_cut_off => Some(Code::ServerUnreachable),
            ServerPhase::Down { .. } => Some(Code::ServerUnreachable),
            ServerPhase::Stopping { .. } => Some(Code::ServerNotReady),
            ServerPhase::Up if !self.expected_failure.allows_nothing() => None,
            ServerPhase::Up => self.random.one_in(8).then_some(Code::ServerUnreachable),
        };
        if let Some(code) = refusal {
            self.refuse(router, code);
            return;
        }
        self.routers[router].sql_connection = Some(self.server.starts);
        self.input(router, Input::Connected(self.server.server()));
    }

    fn answer_on_the_connection(&mut self, router: usize, request: PendingRequest) {
        match request {
            PendingRequest::ReadTimelines(_) => {
                self.input(router, Input::Timelines(self.server.timelines()));
            }
            PendingRequest::ReadSlot => {
                self.input(router, Input::Slot(self.server.read_slot()));
            }
            PendingRequest::ReadCatalog => {
                self.input(router, Input::Catalog(self.server.read_catalog()));
            }
            PendingRequest::StartReplication(backlog) => self.start_replication(router, backlog),
            PendingRequest::None | PendingRequest::Connect | PendingRequest::WatchSlot => {}
        }
    }

    fn start_replication(&mut self, router: usize, backlog: BacklogFrom) {
        let holder = self.server.holder().map(|holder| i32::try_from(holder.id).expect("small"));
        match (self.server.phase, self.server.slot) {
            (ServerPhase::Down { .. } | ServerPhase::Stopping { .. }, _) => {
                self.refuse(router, Code::ServerUnreachable);
            }
            (ServerPhase::Up, None) => self.refuse(router, Code::SlotMissing),
            (ServerPhase::Up, Some(slot)) if slot.is_lost => self.refuse(router, Code::SlotLost),
            (ServerPhase::Up, Some(_)) if holder.is_some() => {
                self.input(router, Input::SlotHeld(holder));
            }
            (ServerPhase::Up, Some(_)) => self.start_streaming(router, backlog),
        }
    }

    fn start_streaming(&mut self, router: usize, backlog: BacklogFrom) {
        let until = self.server.sql_until().filter(|_| backlog == BacklogFrom::Sql);
        let reads = until.map(|until| (self.plan.backlog, until));
        let by_sql = reads.is_some();
        let id = self.server.connect(router, reads, self.at);
        let session = self.begin_session();
        self.set_witness_partition_counts(router, session);
        let process = &mut self.routers[router];
        process.connection = Some(id);
        process.has_begun = false;
        process.session = session;
        process.epoch = self.server.epoch;
        if let Some(producer) = &mut process.producer {
            producer.session = session;
        }
        self.input(router, Input::ReplicationStarted(i32::try_from(id).ok()));
        if by_sql {
            self.input(router, Input::FramesFrom(BacklogFrom::Sql));
        }
    }

    /// For the first session of a process: the partition counts in the witness are all that its
    /// core knows.
    fn set_witness_partition_counts(&mut self, router: usize, session: usize) {
        let best = self.kafka.state.best().filter(|_| self.routers[router].session == usize::MAX);
        let Some(best) = best else { return };
        let mut partition_counts = [None; TYPES.len()];
        for (pin, topic) in partition_counts.iter_mut().zip(&self.kafka.topics) {
            *pin = best.partitions.get(&topic.name).copied();
        }
        self.checker.set_partition_counts(session, partition_counts);
    }

    /// Reports to the checker what the session will send again. Returns the session's number.
    fn begin_session(&mut self) -> usize {
        let confirmed = self.server.confirmed();
        let best = self.kafka.state.best();
        let covered = best.as_ref().map(|best| best.position.as_u64());
        if let Some(covered) = covered {
            self.checker.note_witness_ack(covered);
        }
        // If the state topic was deleted, a router that held the slot later than the writer of the
        // remaining record may have acknowledged more.
        let is_kept = !self.is_state_topic_lost;
        // What precedes the position of an acceptance is recognised by its last transaction alone.
        let has_last = best.is_some_and(|best| best.last.is_some());
        let from = confirmed.max(covered.filter(|_| is_kept && has_last).unwrap_or(0));
        // Without a witness that was kept all the time, what was confirmed before a crash, or in a
        // status update that was lost, may be sent again.
        let known = match covered {
            Some(_) if is_kept && has_last => self.late_witness_position,
            // So is what was delivered by SQL while no update arrived.
            Some(_) if is_kept => self.late_witness_position.max(self.lost_beside_sql),
            Some(_) | None => {
                let confirmed_before = self.server.highest_confirmed.max(self.lost_status_update);
                confirmed_before
                    .max(self.late_witness_position)
                    .max(self.checker.witness_position())
            }
        };
        let history = self.history();
        let extra = history.serial_past(known).saturating_sub(history.serial_past(from));
        self.checker.begin_session(&self.server.history, from, extra)
    }

    /// The core has every answer that it requested, and begins the session.
    pub(super) fn check_session_begin(&mut self, router: usize) {
        self.routers[router].has_begun = true;
        self.coverage.sessions += 1;
        let end = self.server.history.end_of_wal;
        let furthest = match self.plan.state_topic {
            // What another router has stored since the last read is found at the next one.
            StateTopicSetting::Used => {
                let read = self.routers[router].read_witness.as_ref();
                let is_same =
                    |read: &&Witness| read.history.as_ref() == Some(&self.server.identity);
                read.filter(is_same).map_or(0, |read| read.position.as_u64())
            }
            StateTopicSetting::Unused => self.routers[router].furthest,
        };
        // The server was restored after its last answer: that has ended this stream, and the router
        // has not noticed it yet.
        let is_of_server = self.routers[router].epoch == self.server.epoch;
        if furthest > end && is_of_server {
            self.checker.report_violation(Invariant::S11Reporting, || {
                format!("a session begins on a server whose WAL ends at {end}, and {furthest} was confirmed before")
            });
        }
    }

    /// The producer that the core requested is ready.
    pub(super) fn create_producer(&mut self, router: usize) {
        let process = &self.routers[router];
        if process.producer.is_none() && process.producer_at <= self.at {
            // The queue may be smaller or larger than the window.
            let mut producer = SimulatedProducer::new(self.plan.queue);
            producer.session = self.routers[router].session;
            self.routers[router].producer = Some(producer);
            self.input(router, Input::SinkReady);
        }
    }
}
