//! Hands the frames of a connection to the core, and reports the connection's end.

use relay::{BacklogFrom, Code, Failure, FrameOutcome, Input, witness::Witness};

use super::World;
use crate::{
    checker::Origin,
    history::IDS,
    invariant::Invariant,
    kafka::ProducedRecord,
    plan::StateTopicSetting,
    postgres::{SimulatedConnection, SocketMessage},
    router::{ROW_BYTES, SimulatedRouter},
};

impl World {
    /// Offers frames to the core until it takes no more.
    pub(super) fn read(&mut self, router: usize, frames: u64) {
        if !self.routers[router].runs() {
            return;
        }
        self.read_beside(router);
        for _ in 0..frames {
            if let Some(id) = self.routers[router].connection
                && self.server.has_read_backlog(id)
            {
                self.input(router, Input::FramesFrom(BacklogFrom::Stream));
            }
            let process = &self.routers[router];
            let Some(id) = process.connection.filter(|_| process.relay.wants_wal()) else { return };
            let Some(next) = self.server.wire(id).and_then(std::collections::VecDeque::pop_front)
            else {
                self.report_closed_connection(router, id);
                return;
            };
            match next {
                SocketMessage::Frame(frame) => {
                    if !self.offer(router, id, frame) {
                        return;
                    }
                }
                SocketMessage::Oversized(prefix) => {
                    let now = self.now();
                    let step = self.run_in_process(router, |process| {
                        let SimulatedRouter { relay, producer, .. } = process;
                        let Some(producer) = producer else { return FrameOutcome::NotTaken };
                        relay.oversized(ROW_BYTES + prefix.len(), &prefix, now, producer)
                    });
                    self.check_produced_records(router, Origin::Stream);
                    let Some(step) = step else { return };
                    if step == FrameOutcome::NotTaken
                        && let Some(connection) = self.server.connection(id)
                    {
                        connection.shown().push_front(SocketMessage::Oversized(prefix));
                    }
                    self.act(router);
                    if step == FrameOutcome::NotTaken {
                        return;
                    }
                }
                SocketMessage::Warning(warning) => {
                    self.input(router, Input::Notice(&warning.notice()));
                }
                SocketMessage::ErrorResponse(code) => {
                    if code == Code::Backlog {
                        self.checker.note_interruption();
                    }
                    self.lose_connection(router, id, code);
                    return;
                }
                SocketMessage::CopyDone => {
                    let process = &mut self.routers[router];
                    process.ended_in_order = self.server.connection(id).is_some_and(|connection| {
                        connection.client_copy_done && connection.has_walsender
                    });
                    process.connection = None;
                    self.server.close(id);
                    self.input(router, Input::StreamEnded);
                    return;
                }
            }
        }
    }

    /// What the router notices of its walsender while it reads a backlog by SQL: that it lives, and
    /// that its connection has ended.
    fn read_beside(&mut self, router: usize) {
        let Some(id) = self.routers[router].connection else { return };
        if self.server.was_heard(id) {
            self.input(router, Input::BytesArrived);
        }
        if let Some(code) = self.server.has_lost_walsender(id) {
            self.lose_connection(router, id, code);
        }
    }

    /// Offers one frame; returns whether the core took it.
    fn offer(&mut self, router: usize, id: u64, frame: Vec<u8>) -> bool {
        let now = self.now();
        let step = self.run_in_process(router, |process| {
            let SimulatedRouter { relay, producer, .. } = process;
            let Some(producer) = producer else { return FrameOutcome::NotTaken };
            relay.frame(&frame, now, producer)
        });
        self.trace(|| {
            format!("router {router} reads {}: {step:?}", crate::postgres::describe(&frame))
        });
        self.check_produced_records(router, Origin::Stream);
        let Some(step) = step else { return false };
        if step == FrameOutcome::NotTaken
            && let Some(connection) = self.server.connection(id)
        {
            connection.shown().push_front(SocketMessage::Frame(frame));
        }
        self.act(router);
        step == FrameOutcome::Taken
    }

    pub(super) fn check_produced_records(&mut self, router: usize, origin: Origin) {
        self.check_produced_letters(router);
        let SimulatedRouter { producer: Some(producer), session, .. } = &mut self.routers[router]
        else {
            return;
        };
        let produced: Vec<_> = producer.produced.drain(..).collect();
        let session = *session;
        for produced in &produced {
            let from = (session, origin);
            self.checker.check_produced(&self.server.history, &self.kafka, from, produced);
            if self.has_dead_letters() && !self.checker.holds_keys() {
                self.count_overtaking(origin, produced);
            }
        }
        if !produced.is_empty()
            && self.plan.state_topic == StateTopicSetting::Used
            && !self.is_state_topic_lost
        {
            self.check_partition_counts_are_recorded(session, &produced);
        }
    }

    /// Before a topic's first record, a witness must name the topic's partition count: the next
    /// process has to send what comes again to the same partitions.
    fn check_partition_counts_are_recorded(&mut self, session: usize, produced: &[ProducedRecord]) {
        // The records of a router that has lost the slot are deleted.
        if !self.checker.is_newest(session) || self.kafka.state.is_deleted {
            return;
        }
        let numbers = produced.iter().filter_map(|produced| produced.event);
        let events = numbers.filter_map(|number| self.server.history.events.get(number));
        for event in events {
            let topic = event.key / IDS.len();
            if !self.checker.note_first_of_topic(session, topic) {
                continue;
            }
            let name = &self.kafka.topics[topic].name;
            let says = |witness: &Witness| witness.partitions.contains_key(name);
            if !self.kafka.state.all().iter().any(says) {
                self.checker.report_violation(Invariant::S3Order, || {
                    format!("a record is produced to {name}, and no witness has the partition count of that topic")
                });
            }
        }
    }

    /// Nothing is left to read: reports the end of the connection, if its walsender is gone.
    fn report_closed_connection(&mut self, router: usize, id: u64) {
        let ended = self
            .server
            .connection(id)
            .filter(|connection| !connection.has_walsender && !connection.is_black_holed);
        if let Some(code) = ended.map(|connection| connection.ended_by) {
            self.lose_connection(router, id, code);
        }
    }

    /// A router that waits at an empty socket sees at once that the connection has ended.
    pub(super) fn report_closed_connections(&mut self) {
        for router in 0..self.routers.len() {
            let process = &self.routers[router];
            let Some(id) =
                process.connection.filter(|_| process.runs() && process.relay.wants_wal())
            else {
                continue;
            };
            let waits = |one: &&mut SimulatedConnection| {
                !one.is_black_holed && one.backlog.is_none() && one.wire.is_empty()
            };
            let Some(connection) = self.server.connection(id).filter(waits) else {
                continue;
            };
            if !connection.has_walsender {
                self.report_closed_connection(router, id);
            }
        }
    }

    /// Process and connection of a stream that the server has ended with an error, if the router
    /// can still read that error.
    pub(super) fn unread_error(&self, router: usize) -> Option<(u64, u64)> {
        let process = &self.routers[router];
        let id = process.connection?;
        let connection = self.server.connections.iter().find(|one| one.id == id)?;
        let is_error = |message: &SocketMessage| matches!(message, SocketMessage::ErrorResponse(_));
        let is_unread = !connection.is_black_holed && connection.wire.iter().any(is_error);
        is_unread.then_some((process.number, id))
    }

    /// A router that is told that it does not hold the slot must read why the server has ended its
    /// stream, if that error was `unread` before it was told.
    pub(super) fn check_error_is_read(&mut self, router: usize, unread: Option<(u64, u64)>) {
        let process = &self.routers[router];
        if let Some((number, connection)) = unread
            && process.number == number
            && process.connection != Some(connection)
        {
            self.checker.report_violation(Invariant::S11Reporting, || {
                "a router closes a stream and has not read the error at its end".to_owned()
            });
        }
    }

    pub(super) fn lose_connection(&mut self, router: usize, id: u64, code: Code) {
        self.routers[router].connection = None;
        self.server.close(id);
        self.input(router, Input::Disconnected(Failure::new(code, "the connection ended")));
    }
}
