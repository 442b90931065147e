//! What the cluster does with the records of a router, and what it answers about its topics.

use std::num::NonZeroI32;

use relay::{Acks, Code, Failure, Input, Name, TopicFacts, TopicId};

use super::World;
use crate::{
    checker::StoredBy,
    history::CommittedEvent,
    invariant::Invariant,
    kafka::{Carried, LETTERS_INDEX, PendingRecord, TopicPartition},
};

impl World {
    /// Batches of one router are stored.
    pub(super) fn store(&mut self, router: usize, records: u64) {
        if !self.routers[router].runs() {
            return;
        }
        if self.kafka.fails_producers {
            self.checker.note_interruption();
            self.fail_producer(router);
            return;
        }
        for _ in 0..records {
            let Some(producer) = &self.routers[router].producer else { return };
            let partitions = producer.waiting();
            let queues = partitions.len() + usize::from(producer.has_write());
            if queues == 0 || !self.kafka.is_up {
                return;
            }
            let Some(&topic_partition) = partitions.get(self.random.index(queues)) else {
                self.store_write(router);
                continue;
            };
            if let Some(code) = self.refusal(router, topic_partition) {
                self.fail(router, topic_partition, code);
                return;
            }
            if self.kafka.takes(topic_partition) {
                self.store_next(router, topic_partition);
            }
        }
    }

    fn refusal(&mut self, router: usize, topic_partition: TopicPartition) -> Option<Code> {
        if !self.kafka.has(topic_partition) {
            return Some(Code::TopicMissing);
        }
        if topic_partition.topic == LETTERS_INDEX && self.kafka.refuses_letters.is_some() {
            self.coverage.held.letters_refused += 1;
            return self.kafka.refuses_letters;
        }
        let next = self.routers[router]
            .producer
            .as_ref()
            .and_then(|producer| producer.next(topic_partition));
        if self.is_batch_refused(router, topic_partition) {
            return Some(Code::RecordRefused);
        }
        if let (Some(next), Some((refused, _))) = (next, self.refused_event)
            && next == refused
        {
            self.check_isolation(router, topic_partition, refused);
            return Some(Code::RecordRefused);
        }
        self.kafka.rejects.take()
    }

    fn store_next(&mut self, router: usize, topic_partition: TopicPartition) {
        let producer = self.routers[router].producer.as_mut();
        let stored = producer.and_then(|one| one.store(topic_partition));
        let Some(PendingRecord { carries, session, .. }) = stored else { return };
        self.note_stored((carries, session), topic_partition, StoredBy::OpenProducer);
        if std::mem::take(&mut self.kafka.stores_twice) {
            self.note_stored((carries, session), topic_partition, StoredBy::ClusterRetry);
        }
    }

    /// A partition has another record.
    fn note_stored(
        &mut self,
        (carries, session): (Carried, usize),
        topic_partition: TopicPartition,
        stored_by: StoredBy,
    ) {
        match carries {
            Carried::Event(event) => {
                self.trace(|| {
                    let CommittedEvent { key, index_in_key, .. } =
                        self.server.history.events[event];
                    format!("event {event} ({index_in_key} of key {key}) of session {session} is stored in {topic_partition:?}")
                });
                let record = (event, session);
                let history = &mut self.server.history;
                self.checker.check_stored(history, record, topic_partition, stored_by);
            }
            Carried::Letter(id, event) => {
                self.trace(|| format!("a record of the dead letter {id} ({event:?}) is stored"));
                if let Some(event) = event {
                    self.server.history.events[event].has_letter_record = true;
                }
            }
        }
    }

    /// A batch of a producer that was closed is stored.
    pub(super) fn store_late_batch(&mut self) {
        if self.random.one_in(4) {
            self.store_late_write();
        }
        if self.kafka.late_batches.is_empty() {
            return;
        }
        let late_batch = self.random.index(self.kafka.late_batches.len());
        let late_batch = self.kafka.late_batches.swap_remove(late_batch);
        if self.kafka.takes(late_batch.topic_partition)
            && self.kafka.has(late_batch.topic_partition)
        {
            for PendingRecord { carries, session, .. } in late_batch.records {
                let topic_partition = late_batch.topic_partition;
                self.note_stored((carries, session), topic_partition, StoredBy::ClosedProducer);
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
                let partitions = producer.unacked();
                if partitions.is_empty() {
                    break;
                }
                producer.ack(partitions[self.random.index(partitions.len())], &mut acks);
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

    fn fail(&mut self, router: usize, topic_partition: TopicPartition, code: Code) {
        self.checker.note_interruption();
        if code != Code::RecordRefused || topic_partition.topic == LETTERS_INDEX {
            // The router now isolates the transaction that failed here, not the one of the refused
            // record.
            self.reset_refused_process();
        }
        let producer = self.routers[router].producer.as_mut();
        let transaction = producer.and_then(|producer| producer.fail(topic_partition));
        let topic = &self.kafka.topics[topic_partition.topic].name;
        let failure = Failure::new(code, "failed").naming(Name::Topic, topic);
        self.input(router, Input::DeliveryFailed { transaction, failure });
    }

    pub(super) fn fail_producer(&mut self, router: usize) -> bool {
        let producer = self.routers[router].producer.as_mut().filter(|one| !one.is_closed());
        let Some(producer) = producer else { return false };
        producer.close();
        self.reset_refused_process();
        let failure = Failure::new(Code::ProducerFatal, "fatal");
        self.input(router, Input::DeliveryFailed { transaction: None, failure });
        true
    }

    pub(super) fn reset_refused_process(&mut self) {
        if let Some((_, process)) = &mut self.refused_event {
            *process = None;
        }
    }

    /// When a record is refused again, only its own transaction may be in flight with it.
    fn check_isolation(&mut self, router: usize, topic_partition: TopicPartition, number: usize) {
        let process = &self.routers[router];
        let (session, number_of_process) = (process.session, process.number);
        let next =
            process.producer.as_ref().and_then(|producer| producer.next_session(topic_partition));
        let Some((_, met)) = &mut self.refused_event else { return };
        // The record belongs to a session that is over: the router knows its position only after it
        // fails again.
        if process.connection.is_none() || next != Some(session) {
            *met = None;
            return;
        }
        let knew = met.replace(number_of_process) == Some(number_of_process);
        let connection = process.connection.and_then(|id| self.server.connection(id));
        let receives_updates =
            connection.is_some_and(|one| one.has_walsender && !one.is_black_holed);
        if !knew || !receives_updates {
            return;
        }
        let history = &self.server.history;
        let event = &history.events[number];
        let Some(transaction) = history.transactions.get(event.transaction) else { return };
        let confirmed = history.serial_past(self.server.confirmed());
        let first = history.events[transaction.events.start].serial;
        if confirmed < first {
            self.checker.report_violation(Invariant::S4Duplicates, || {
                format!(
                    "the router isolates a refused record, and {} events before it are not confirmed",
                    first - confirmed
                )
            });
        }
        let past = transaction.events.end;
        if self.checker.newest(session).is_some_and(|newest| newest >= past) {
            self.checker.report_violation(Invariant::S4Duplicates, || {
                "the router isolates a refused record, and has produced events after it".to_owned()
            });
        }
    }

    /// A pending request is answered: for a connection, a producer, or a topic's metadata.
    pub(super) fn answer(&mut self, router: usize) {
        if !self.routers[router].runs() {
            return;
        }
        self.create_producer(router);
        self.answer_one_request(router);
        self.answer_look_up(router);
        self.release(router);
    }

    /// Answers one pending request to the server or read of the state topic.
    pub(super) fn answer_one_request(&mut self, router: usize) {
        if self.random.one_in(2) {
            self.answer_state_topic_read(router);
        } else {
            self.answer_request(router);
        }
        self.answer_held(router);
    }

    fn answer_look_up(&mut self, router: usize) {
        let Some((id, index)) = self.routers[router].topic_lookups.pop_front() else { return };
        let topic = &self.kafka.topics[index];
        let facts = match topic.partitions {
            _ if !self.kafka.is_up => Err(Failure::new(Code::KafkaUnreachable, "no answer")),
            Some(partitions) if !topic.is_hidden => Ok(TopicFacts {
                partitions: NonZeroI32::new(partitions).expect("a topic has partitions"),
                max_message_bytes: topic.limit,
            }),
            Some(_) | None => Err(Failure::new(Code::TopicMissing, "not there")),
        };
        if let (Ok(_), Some(producer)) = (&facts, &mut self.routers[router].producer) {
            producer.bind(id, index);
        }
        self.input(router, Input::Topic(id, facts));
    }

    /// The topic refresh: the metadata of each topic in use is read again.
    pub(super) fn refresh_topics(&mut self, router: usize) {
        let down = (!self.kafka.is_up).then(|| Failure::new(Code::KafkaUnreachable, "down"));
        let is_down = down.is_some();
        self.input(router, Input::BrokersUnreachable(down));
        if is_down || self.routers[router].producer.is_none() {
            return;
        }
        let used: Vec<TopicId> =
            self.routers[router].relay.topics_in_use().map(|(id, _)| id).collect();
        for id in used {
            let Some(index) = self.routers[router].topic(id) else { continue };
            let topic = &self.kafka.topics[index];
            match topic.partitions.filter(|_| !topic.is_hidden).and_then(NonZeroI32::new) {
                Some(count) => self.input(router, Input::Partitions(id, count)),
                None => self.input(router, Input::TopicGone(id)),
            }
        }
    }
}
