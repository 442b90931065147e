//! Kafka's side: records leave sockets, are stored or refused, and are acknowledged.

use relay::{Code, Failure};

use super::PollingWorld;
use crate::polling::{kafka::Partition, producer::PolledProducer};

impl PollingWorld {
    fn producer(&mut self, slot: usize) -> Option<&mut PolledProducer> {
        self.slots[slot].process.as_mut()?.producer.as_mut()
    }

    /// Some records of a process leave its socket.
    pub(super) fn send(&mut self, slot: usize) {
        let at = self.at;
        if self.kafka.down_until.is_some() {
            return;
        }
        if !self.slots[slot].process.as_ref().is_some_and(|process| process.runs()) {
            return;
        }
        let some = 1 + self.random.index(4);
        for _ in 0..some {
            let Some(producer) = self.producer(slot) else { return };
            producer.scan(at);
            let queued = producer.queued();
            if queued.is_empty() {
                return;
            }
            let partition = queued[self.random.index(queued.len())];
            if self.kafka.missing_until[partition.0].is_some() {
                let failure = Failure::new(Code::TopicMissing, "the topic does not exist");
                if let Some(producer) = self.producer(slot) {
                    producer.fail(None, failure);
                }
                return;
            }
            let Some(record) = self.producer(slot).and_then(|producer| producer.next(partition))
            else {
                return;
            };
            self.checker.sent(record, &self.tables, &self.leases);
            self.trace(|| format!("{} sends row {}", record.process, record.row));
            if let Some(producer) = self.producer(slot) {
                producer.send(partition, at);
            }
        }
    }

    /// A record of a process, whether the process runs or not, arrives.
    pub(super) fn arrive(&mut self, slot: usize) {
        let Some(producer) = self.producer(slot) else { return };
        let on_wire = producer.on_wire();
        if !on_wire.is_empty() {
            let partition = on_wire[self.random.index(on_wire.len())];
            self.arrive_in(slot, partition);
        }
    }

    /// The next record of a partition arrives.
    pub(super) fn arrive_in(&mut self, slot: usize, partition: Partition) {
        let takes = self.kafka.takes(partition.0);
        let Some(producer) = self.producer(slot) else { return };
        let Some((record, _)) = producer.arriving(partition) else { return };
        if !takes {
            return producer
                .fail(None, Failure::new(Code::TopicMissing, "the topic does not exist"));
        }
        if record.is_refused {
            self.trace(|| format!("row {} is refused", record.row));
            if let Some(producer) = self.producer(slot) {
                producer.refused(partition);
            }
            return;
        }
        producer.stored(partition);
        self.kafka.store(partition, record);
        self.checker.stored(record, &self.tables);
        self.coverage.records += 1;
        self.trace(|| format!("row {} of {} is stored", record.row, record.process));
        self.kill_if_amid_records(slot);
    }

    /// Everything that must have arrived by now does.
    pub(super) fn everything_due_arrives(&mut self, slot: usize) {
        let at = self.at;
        loop {
            let Some(producer) = self.producer(slot) else { return };
            let due = producer
                .on_wire()
                .into_iter()
                .find(|partition| producer.arriving(*partition).is_some_and(|(_, by)| by <= at));
            let Some(partition) = due else { return };
            let before = self.arriving_in(slot, partition);
            self.arrive_in(slot, partition);
            if before == self.arriving_in(slot, partition) {
                // The producer has failed, and what is on the wire is lost.
                if let Some(producer) = self.producer(slot) {
                    producer.lose_wire();
                }
            }
        }
    }

    fn arriving_in(&mut self, slot: usize, partition: Partition) -> Option<usize> {
        self.producer(slot)?.arriving(partition).map(|(record, _)| record.row)
    }

    /// Acknowledgements of a process arrive.
    pub(super) fn acknowledge(&mut self, slot: usize) {
        if self.kafka.down_until.is_some() || self.late.is_silent(self.at) {
            return;
        }
        let some = 1 + self.random.index(6);
        for _ in 0..some {
            let Some(producer) = self.producer(slot) else { return };
            let unacked = producer.unacked();
            if unacked.is_empty() {
                return;
            }
            let partition = unacked[self.random.index(unacked.len())];
            if let Some(producer) = self.producer(slot) {
                producer.ack(partition);
            }
        }
    }

    /// A record of a producer that is gone arrives, or is lost.
    pub(super) fn stray_arrives(&mut self) {
        if self.kafka.strays.is_empty() {
            return;
        }
        let index = self.random.index(self.kafka.strays.len());
        let Some(stray) = self.kafka.take_stray(index) else { return };
        let is_stored = self.kafka.takes(stray.partition.0) && !stray.record.is_refused;
        if is_stored {
            self.kafka.store(stray.partition, stray.record);
            self.checker.stored(stray.record, &self.tables);
            self.coverage.records += 1;
            self.trace(|| {
                format!("row {} of {} is stored late", stray.record.row, stray.record.process)
            });
        } else {
            // What follows it in its partition is out of sequence.
            self.kafka.lose_behind(&stray);
        }
    }

    /// Kafka cannot be reached: what is on the wire is lost, or was just stored.
    pub(super) fn disconnect_brokers(&mut self) {
        for slot in 0..self.slots.len() {
            if self.random.one_in(2) {
                self.arrive(slot);
            }
            if let Some(producer) = self.producer(slot) {
                producer.disconnected();
            }
        }
        self.kafka.strays.clear();
    }
}
