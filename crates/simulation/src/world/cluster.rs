//! What the cluster does with the records of a router, and what it answers about its topics.

use std::num::NonZeroI32;

use relay::{Acks, Code, Failure, Input, TopicFacts, TopicId};

use super::World;
use crate::{
    checker::StoredBy,
    invariant::Invariant,
    kafka::{PendingRecord, TopicPartition},
};

impl World {
    /// Batches of one router are stored.
    pub(super) fn store(&mut self, router: usize, records: u64) {
        if !self.routers[router].runs() {
            return;
        }
        if self.kafka.ends_producers {
            self.checker.interrupted();
            self.fail_producer(router);
            return;
        }
        for _ in 0..records {
            let Some(producer) = &self.routers[router].producer else { return };
            let lanes = producer.waiting();
            let queues = lanes.len() + usize::from(producer.has_write());
            if queues == 0 || !self.kafka.is_up {
                return;
            }
            let Some(&lane) = lanes.get(self.random.index(queues)) else {
                self.store_write(router);
                continue;
            };
            if let Some(code) = self.refusal(router, lane) {
                self.fail(router, lane, code);
                return;
            }
            if self.kafka.takes(lane) {
                self.store_next(router, lane);
            }
        }
    }

    fn refusal(&mut self, router: usize, lane: TopicPartition) -> Option<Code> {
        if !self.kafka.has(lane) {
            return Some(Code::TopicMissing);
        }
        let next = self.routers[router].producer.as_ref().and_then(|producer| producer.next(lane));
        if let (Some(next), Some((refused, _))) = (next, self.refused)
            && next == refused
        {
            self.see_that_care_is_taken(router, lane, refused);
            return Some(Code::RecordRefused);
        }
        self.kafka.rejects.take()
    }

    fn store_next(&mut self, router: usize, lane: TopicPartition) {
        let producer = self.routers[router].producer.as_mut();
        let Some(PendingRecord { event, session, .. }) = producer.and_then(|one| one.store(lane))
        else {
            return;
        };
        self.tell(|| format!("event {event} of session {session} is stored in {lane:?}"));
        self.checker.stored(
            &mut self.server.history,
            (event, session),
            lane,
            StoredBy::OpenProducer,
        );
        if std::mem::take(&mut self.kafka.stores_twice) {
            let again = (event, session);
            self.checker.stored(&mut self.server.history, again, lane, StoredBy::ClusterRetry);
        }
    }

    /// A batch of a producer that was closed is stored.
    pub(super) fn free_a_ghost(&mut self) {
        if self.random.one_in(4) {
            self.free_a_ghostly_write();
        }
        if self.kafka.ghosts.is_empty() {
            return;
        }
        let ghost = self.random.index(self.kafka.ghosts.len());
        let ghost = self.kafka.ghosts.swap_remove(ghost);
        if self.kafka.takes(ghost.lane) && self.kafka.has(ghost.lane) {
            for PendingRecord { event, session, .. } in ghost.records {
                let record = (event, session);
                self.checker.stored(
                    &mut self.server.history,
                    record,
                    ghost.lane,
                    StoredBy::ClosedProducer,
                );
            }
        }
    }

    pub(super) fn acknowledge(&mut self, router: usize, records: u64) {
        if !self.routers[router].runs() || !self.kafka.is_up || !self.kafka.acks_pass {
            return;
        }
        let mut acks = Acks::default();
        if let Some(producer) = &mut self.routers[router].producer {
            for _ in 0..records {
                let lanes = producer.unacked();
                if lanes.is_empty() {
                    break;
                }
                producer.ack(lanes[self.random.index(lanes.len())], &mut acks);
            }
        }
        let writes_first = self.random.one_in(2);
        if writes_first {
            self.acknowledge_write(router);
        }
        if !acks.is_empty() {
            self.input(router, Input::Acks(&acks));
        }
        if !writes_first {
            self.acknowledge_write(router);
        }
    }

    fn fail(&mut self, router: usize, lane: TopicPartition, code: Code) {
        self.checker.interrupted();
        if code != Code::RecordRefused {
            // The router now isolates the transaction that failed here, not the one of the refused
            // record.
            self.forget_who_was_refused();
        }
        let producer = self.routers[router].producer.as_mut();
        let transaction = producer.and_then(|producer| producer.fail(lane));
        let failure = Failure::new(code, "failed");
        self.input(router, Input::DeliveryFailed { transaction, failure });
    }

    pub(super) fn fail_producer(&mut self, router: usize) -> bool {
        let producer = self.routers[router].producer.as_mut().filter(|one| !one.is_closed());
        let Some(producer) = producer else { return false };
        producer.close();
        self.forget_who_was_refused();
        let failure = Failure::new(Code::ProducerFatal, "fatal");
        self.input(router, Input::DeliveryFailed { transaction: None, failure });
        true
    }

    pub(super) fn forget_who_was_refused(&mut self) {
        if let Some((_, process)) = &mut self.refused {
            *process = None;
        }
    }

    /// When a record is refused again, only its own transaction may be in flight with it.
    fn see_that_care_is_taken(&mut self, router: usize, lane: TopicPartition, number: usize) {
        let process = &self.routers[router];
        let (session, number_of_process) = (process.session, process.number);
        let next = process.producer.as_ref().and_then(|producer| producer.next_session(lane));
        let Some((_, met)) = &mut self.refused else { return };
        // The record belongs to a session that is over: the router knows its position only after it
        // fails again.
        if process.connection.is_none() || next != Some(session) {
            *met = None;
            return;
        }
        let knew = met.replace(number_of_process) == Some(number_of_process);
        let connection = process.connection.and_then(|id| self.server.connection(id));
        let is_told = connection.is_some_and(|one| one.is_served && !one.is_swallowed);
        if !knew || !is_told {
            return;
        }
        let history = &self.server.history;
        let event = &history.events[number];
        let Some(transaction) = history.transactions.get(event.transaction) else { return };
        let confirmed = history.serial_past(self.server.confirmed());
        let first = history.events[transaction.events.start].serial;
        if confirmed < first {
            self.checker.accuse(Invariant::S4Duplicates, || {
                format!(
                    "{} events before one that is refused again come with it",
                    first - confirmed
                )
            });
        }
        let past = transaction.events.end;
        if self.checker.newest(session).is_some_and(|newest| newest >= past) {
            self.checker.accuse(Invariant::S4Duplicates, || {
                "events behind one that is refused again were produced with it".to_owned()
            });
        }
    }

    /// A pending request is answered: for a connection, a producer, or a topic's metadata.
    pub(super) fn answer(&mut self, router: usize) {
        if !self.routers[router].runs() {
            return;
        }
        self.finish_producer(router);
        self.answer_a_question(router);
        self.answer_look_up(router);
    }

    /// Answers one pending request to the server or read of the state topic.
    pub(super) fn answer_a_question(&mut self, router: usize) {
        if self.random.one_in(2) {
            self.finish_reading(router);
        } else {
            self.finish_job(router);
        }
    }

    fn answer_look_up(&mut self, router: usize) {
        let Some((id, place)) = self.routers[router].asked.pop_front() else { return };
        let topic = &self.kafka.topics[place];
        let facts = match topic.partitions {
            _ if !self.kafka.is_up => Err(Failure::new(Code::KafkaUnreachable, "no answer")),
            Some(partitions) if !topic.is_denied => Ok(TopicFacts {
                partitions: NonZeroI32::new(partitions).expect("a topic has partitions"),
                max_message_bytes: topic.limit,
            }),
            Some(_) | None => Err(Failure::new(Code::TopicMissing, "not there")),
        };
        if let (Ok(_), Some(producer)) = (&facts, &mut self.routers[router].producer) {
            producer.bind(id, place);
        }
        self.input(router, Input::Topic(id, facts));
    }

    /// The topic refresh: the metadata of each topic in use is read again.
    pub(super) fn see_topics(&mut self, router: usize) {
        let down = (!self.kafka.is_up).then(|| Failure::new(Code::KafkaUnreachable, "down"));
        let is_down = down.is_some();
        self.input(router, Input::SinkTrouble(down));
        if is_down || self.routers[router].producer.is_none() {
            return;
        }
        let used: Vec<TopicId> =
            self.routers[router].relay.topics_in_use().map(|(id, _)| id).collect();
        for id in used {
            let Some(place) = self.routers[router].topic(id) else { continue };
            let topic = &self.kafka.topics[place];
            match topic.partitions.filter(|_| !topic.is_denied).and_then(NonZeroI32::new) {
                Some(count) => self.input(router, Input::Partitions(id, count)),
                None => self.input(router, Input::TopicGone(id)),
            }
        }
    }
}
