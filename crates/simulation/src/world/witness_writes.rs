//! The state topic: how routers read and write it, and what their records must not claim.

use relay::{
    Code, Failure, Input, StateTopicRead, Write, WriteAck,
    witness::{Witness, combine},
};

use super::World;
use crate::{
    history::CommittedEvent,
    invariant::Invariant,
    kafka::FailedWrite,
    router::{PendingRead, standing},
};

impl World {
    /// The core asks for the records of the state topic.
    pub(super) fn request_state_topic_read(&mut self, router: usize, number: u64) {
        // An answer that arrives late may have been read early.
        let reading = if self.random.one_in(3) {
            PendingRead::Done(self.read_state_topic())
        } else {
            PendingRead::Requested
        };
        self.routers[router].state_topic_reads.push_back((number, reading));
        self.routers[router].last_state_topic_read = number;
    }

    fn read_state_topic(&self) -> Result<StateTopicRead, Failure> {
        if !self.kafka.is_state_topic_available() {
            return Err(Failure::new(Code::KafkaUnreachable, "the state topic cannot be read"));
        }
        if self.kafka.state.is_deleted {
            return Err(Failure::new(Code::TopicMissing, "there is no state topic"));
        }
        Ok(StateTopicRead { cluster: self.kafka.cluster(), records: self.kafka.state.read() })
    }

    /// The oldest pending read is answered.
    pub(super) fn answer_state_topic_read(&mut self, router: usize) {
        let (number, read) = match self.routers[router].state_topic_reads.pop_front() {
            Some((number, PendingRead::Done(read))) => (number, read),
            Some((number, PendingRead::Requested)) => (number, self.read_state_topic()),
            None => return,
        };
        let is_last = number == self.routers[router].last_state_topic_read && read.is_ok();
        let before = self.stream_to_begin(router).filter(|_| is_last);
        let known = read.as_ref().ok().and_then(|read| combine(&read.records).ok().flatten());
        if is_last {
            self.routers[router].take_read_witness(known.as_ref());
        }
        self.input(router, Input::StateTopic(number, read));
        if before.is_some()
            && before == self.stream_to_begin(router)
            && known.is_some_and(|known| self.routers[router].knows_open_gap(&known))
        {
            self.checker.report_violation(Invariant::S11Reporting, || {
                "a session begins although a gap is open".to_owned()
            });
        }
    }

    /// Process and connection of a stream whose session the core has not begun yet.
    pub(super) fn stream_to_begin(&self, router: usize) -> Option<(u64, u64)> {
        let process = &self.routers[router];
        let connection = process.connection.filter(|_| !process.has_begun)?;
        Some((process.number, connection))
    }

    /// The core gives a write of its witness to the producer.
    pub(super) fn write_state_topic(&mut self, router: usize, write: Write) {
        self.check_witness_against_acks(router, &write);
        self.check_standing(router, &write);
        if let Some(producer) = &mut self.routers[router].producer {
            producer.write(write);
        }
    }

    /// What a process writes must count for more than what it wrote before, which may be stored
    /// later: else the witness would fall back to the earlier session's position.
    fn check_standing(&mut self, router: usize, write: &Write) {
        let Some(now) = decoded(write).as_ref().map(standing) else { return };
        if let Some(before) = self.routers[router].standing.replace(now)
            && now < before
        {
            self.checker.report_violation(Invariant::S4Duplicates, || {
                format!("a process writes a record of {now:?} after one of {before:?}")
            });
        }
    }

    /// A witness must not name a position that Kafka does not have everything before: the next
    /// session would believe it.
    fn check_witness_against_acks(&mut self, router: usize, write: &Write) {
        let Some(witness) = decoded(write) else { return };
        // A gap is recorded beside the position known before, which claims nothing new.
        if !witness.gaps.is_empty() {
            return;
        }
        let position = witness.position.as_u64();
        let history = &self.server.history;
        // A claim about a history that is gone is not compared with the present one.
        if self.routers[router].epoch != self.server.epoch {
            return;
        }
        let before = &history.transactions[..history.first_from(position)];
        // A router that has lost the slot does not know that somebody has removed rows.
        let is_unnoticed =
            |event: &CommittedEvent| event.is_row_lost && self.expected_failure.is_required();
        let missing = before.iter().flat_map(|one| one.events.clone()).find(|number| {
            let event = &history.events[*number];
            !event.is_settled() && event.is_published() && !is_unnoticed(event)
        });
        for number in before.iter().flat_map(|one| one.events.clone()) {
            self.checker.check_letter_record(number, &history.events[number], position);
        }
        if let Some(number) = missing {
            self.checker.report_violation(Invariant::S2NeverAhead, || {
                format!("a witness with position {position} is written, and event {number} before it is not in Kafka")
            });
        }
    }

    /// The cluster stores the next write of a router.
    pub(super) fn store_write(&mut self, router: usize) {
        let refusal = match self.kafka.state.is_deleted {
            true => Some(Code::TopicMissing),
            false => self.kafka.rejects.take(),
        };
        if let Some(code) = refusal {
            self.checker.note_interruption();
            self.reset_refused_process();
            let outcome =
                if self.random.one_in(2) { FailedWrite::StoredLater } else { FailedWrite::Lost };
            if let Some(producer) = &mut self.routers[router].producer {
                producer.fail_write(outcome);
            }
            let failure = Failure::new(code, "failed");
            self.input(router, Input::DeliveryFailed { transaction: None, failure });
        } else if self.kafka.is_state_topic_available()
            && let Some(producer) = &mut self.routers[router].producer
            && let Some(write) = producer.store_write(|write| self.kafka.state.store(write))
        {
            let (number, what) = (write.number, decoded(write));
            if !self.checker.is_newest(self.routers[router].session) {
                self.note_late_witness(what.as_ref());
            }
            self.trace(|| format!("write {number} of router {router} is stored: {}", brief(&what)));
        }
    }

    /// The acknowledgement of a write arrives.
    pub(super) fn acknowledge_write(&mut self, router: usize) {
        let producer = self.routers[router].producer.as_mut();
        let acked = producer.and_then(crate::kafka::SimulatedProducer::ack_write);
        let Some((write, offset)) = acked else { return };
        if let Some(witness) = decoded(&write) {
            let position = witness.position.as_u64();
            self.checker.advance_window_start(self.routers[router].session, position);
            if self.routers[router].epoch == self.server.epoch {
                self.checker.note_witness_ack(position);
            }
        }
        let number = write.number;
        self.input(router, Input::StateTopicWritten(WriteAck { number, offset }));
    }

    /// A write of a producer that was closed is stored late.
    pub(super) fn store_late_write(&mut self) {
        if self.kafka.state.late_writes.is_empty() || !self.kafka.is_state_topic_available() {
            return;
        }
        let late_write = self.random.index(self.kafka.state.late_writes.len());
        let write = self.kafka.state.late_writes.swap_remove(late_write);
        if !self.kafka.state.is_deleted {
            self.kafka.state.store(&write);
            self.note_late_witness(decoded(&write).as_ref());
            self.trace(|| format!("a late write is stored: {}", brief(&decoded(&write))));
        }
    }
}

impl World {
    /// Whether a record with a higher rank is on its way, or a session is to write one that has not
    /// read this: a router that had lost the slot wrote it.
    pub(super) fn is_outranked(&self, known: &Witness) -> bool {
        let producers = self.routers.iter().filter_map(|router| router.producer.as_ref());
        let writes = producers.flat_map(crate::kafka::SimulatedProducer::writes);
        let mut on_their_way = writes.chain(&self.kafka.state.late_writes).filter_map(decoded);
        on_their_way.any(|witness| standing(&witness) > standing(known))
            || self.routers.iter().any(|router| {
                router.has_begun
                    && self.checker.is_newest(router.session)
                    && router.is_to_write_first()
                    && router.read_witness.as_ref() != Some(known)
            })
    }

    /// The next session deletes the records that it found, and does not know what a router that has
    /// lost the slot writes later. If such a late record is deleted, its events come again.
    /// So do those of a record that Kafka loses, where the slot is taken back as well.
    pub(super) fn note_late_witness(&mut self, witness: Option<&Witness>) {
        let position = witness.map_or(0, |witness| witness.position.as_u64());
        self.late_witness_position = self.late_witness_position.max(position);
    }
}

fn decoded(write: &Write) -> Option<Witness> {
    let value = write.value.as_ref()?;
    Some(Witness::decode(value).expect("a router reads what a router writes"))
}

fn brief(witness: &Option<Witness>) -> String {
    match witness {
        None => "deletion".to_owned(),
        Some(Witness { generation, position, last, gaps, .. }) => {
            let last = last.map(|last| last.end_lsn.as_u64());
            let gaps: Vec<String> = gaps.iter().map(relay::source::Gap::name).collect();
            format!("{generation}, {}, last {last:?}, gaps {gaps:?}", position.as_u64())
        }
    }
}
