//! Hands the frames of a connection to the core, and reports the connection's end.

use relay::{Code, Failure, Input, ServerNotice, Step, witness::Witness};

use super::World;
use crate::{
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
        for _ in 0..frames {
            let process = &self.routers[router];
            let Some(id) = process.connection.filter(|_| process.relay.wants_wal()) else { return };
            let Some(next) = self.server.wire(id).and_then(std::collections::VecDeque::pop_front)
            else {
                self.notice_end(router, id);
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
                    let step = self.within(router, |process| {
                        process.relay.oversized(ROW_BYTES + prefix.len(), &prefix, now)
                    });
                    let Some(step) = step else { return };
                    if step == Step::Blocked
                        && let Some(connection) = self.server.connection(id)
                    {
                        connection.wire.push_front(SocketMessage::Oversized(prefix));
                    }
                    self.act(router);
                    if step == Step::Blocked {
                        return;
                    }
                }
                SocketMessage::Notice => {
                    let notice = ServerNotice {
                        code: "55000".to_owned(),
                        message: "skipped loading publication".to_owned(),
                    };
                    self.input(router, Input::Notice(&notice));
                }
                SocketMessage::ErrorResponse(code) => {
                    self.broken(router, id, code);
                    return;
                }
                SocketMessage::CopyDone => {
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

    /// Offers one frame; returns whether the core took it.
    fn offer(&mut self, router: usize, id: u64, frame: Vec<u8>) -> bool {
        let now = self.now();
        let step = self.within(router, |process| {
            let SimulatedRouter { relay, producer, .. } = process;
            let Some(producer) = producer else { return Step::Blocked };
            relay.frame(&frame, now, producer)
        });
        self.tell(|| {
            format!("router {router} reads {}: {step:?}", crate::postgres::describe(&frame))
        });
        self.look_at_what_was_taken(router);
        let Some(step) = step else { return false };
        if step == Step::Blocked
            && let Some(connection) = self.server.connection(id)
        {
            connection.wire.push_front(SocketMessage::Frame(frame));
        }
        self.act(router);
        step == Step::Taken
    }

    fn look_at_what_was_taken(&mut self, router: usize) {
        let SimulatedRouter { producer: Some(producer), session, .. } = &mut self.routers[router]
        else {
            return;
        };
        let taken: Vec<_> = producer.taken.drain(..).collect();
        let session = *session;
        for taken in &taken {
            self.checker.produced(&self.server.history, &self.kafka, session, taken);
        }
        if !taken.is_empty() && self.plan.keeping == StateTopicSetting::Used && !self.is_state_lost
        {
            self.see_that_partitions_are_vouched_for(session, &taken);
        }
    }

    /// Before a topic's first record, a witness must name the topic's partition count: the next
    /// process has to send what comes again to the same partitions.
    fn see_that_partitions_are_vouched_for(&mut self, session: usize, taken: &[ProducedRecord]) {
        // The records of a router that has lost the slot are deleted.
        if !self.checker.is_newest(session) || self.kafka.state.is_deleted {
            return;
        }
        let numbers = taken.iter().filter_map(|taken| taken.event);
        let events = numbers.filter_map(|number| self.server.history.events.get(number));
        for event in events {
            let topic = event.key / IDS.len();
            if !self.checker.is_first(session, topic) {
                continue;
            }
            let name = &self.kafka.topics[topic].name;
            let says = |witness: &Witness| witness.partitions.contains_key(name);
            if !self.kafka.state.all().iter().any(says) {
                self.checker.accuse(Invariant::S3Order, || {
                    format!("a record is produced to {name}, whose partitions no witness has")
                });
            }
        }
    }

    /// Nothing is left to read: reports the end of the connection, if its walsender is gone.
    fn notice_end(&mut self, router: usize, id: u64) {
        let ended = self
            .server
            .connection(id)
            .filter(|connection| !connection.is_served && !connection.is_swallowed);
        if let Some(code) = ended.map(|connection| connection.ended_by) {
            self.broken(router, id, code);
        }
    }

    /// A router that waits at an empty socket sees at once that the connection has ended.
    pub(super) fn notice_ends(&mut self) {
        for router in 0..self.routers.len() {
            let process = &self.routers[router];
            let Some(id) =
                process.connection.filter(|_| process.runs() && process.relay.wants_wal())
            else {
                continue;
            };
            let waits = |one: &&mut SimulatedConnection| !one.is_swallowed && one.wire.is_empty();
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
}
