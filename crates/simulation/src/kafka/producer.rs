//! A producer as the core sees it: a queue per partition, from which the cluster stores batches in
//! order, and the stored records whose acknowledgements have not arrived. After its first failure
//! the producer takes no more records.

use std::collections::{BTreeMap, VecDeque};

use relay::{
    Acks, Record, RecordSink, Refusal, RefusalReason, Ticket, TopicId, TransactionRef, Write,
    held::EventId,
};

use super::{
    LETTERS_INDEX, ProducedLetter,
    flight::{Carried, LateBatch, PendingRecord, TopicPartition},
};
use crate::{
    history::IDS,
    postgres::{self, EVENT_TYPE},
};

/// What the core gave to the producer. The checker compares it with what was committed.
#[derive(Debug)]
pub struct ProducedRecord {
    /// The index of the event, from the id header; None if the header does not name one.
    pub event: Option<usize>,
    /// Index of its key; None if there is no such key.
    pub key: Option<usize>,
    /// Index of the topic; None if it was not looked up.
    pub topic: Option<usize>,
    /// The partition that the core chose.
    pub partition: i32,
    /// Whether value and headers are what they should be.
    pub is_intact: bool,
}

/// What happens to a write that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedWrite {
    /// It is never stored.
    Lost,
    /// It is stored later: the broker had it, and only the response was lost.
    StoredLater,
}

/// See the module's documentation.
pub struct SimulatedProducer {
    capacity: usize,
    in_flight: usize,
    is_closed: bool,
    /// The session that produces now.
    pub session: usize,
    /// Index of each topic, by the core's number for it.
    bound: Vec<Option<usize>>,
    waiting: BTreeMap<TopicPartition, VecDeque<PendingRecord>>,
    stored: BTreeMap<TopicPartition, VecDeque<(TopicId, Ticket)>>,
    ids: Vec<(usize, TopicId)>,
    /// Writes to the state topic that are not stored yet.
    writes: VecDeque<Write>,
    /// Writes that are stored and not acknowledged.
    written: VecDeque<(Write, i64)>,
    /// What was produced since the checker last emptied this list.
    pub produced: Vec<ProducedRecord>,
    /// The same for dead letters.
    pub letters: Vec<ProducedLetter>,
}

impl SimulatedProducer {
    /// Takes up to `capacity` records that are not acknowledged.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            in_flight: 0,
            is_closed: false,
            session: 0,
            bound: Vec::new(),
            waiting: BTreeMap::new(),
            stored: BTreeMap::new(),
            ids: Vec::new(),
            writes: VecDeque::new(),
            written: VecDeque::new(),
            produced: Vec::new(),
            letters: Vec::new(),
        }
    }

    /// Binds the core's number of a topic to the topic's index.
    pub fn bind(&mut self, id: TopicId, topic: usize) {
        if self.bound.len() <= id.index() {
            self.bound.resize(id.index() + 1, None);
        }
        if self.bound[id.index()].is_none() {
            self.bound[id.index()] = Some(topic);
            self.ids.push((topic, id));
        }
    }

    /// Whether it refuses everything.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Partitions with a record that is not stored, unless the producer is closed.
    pub fn waiting(&self) -> Vec<TopicPartition> {
        if self.is_closed {
            return Vec::new();
        }
        self.waiting
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(topic_partition, _)| *topic_partition)
            .collect()
    }

    /// Partitions with an acknowledgement that has not arrived.
    pub fn unacked(&self) -> Vec<TopicPartition> {
        self.stored
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(topic_partition, _)| *topic_partition)
            .collect()
    }

    /// The event that is stored next in a partition.
    pub fn next(&self, topic_partition: TopicPartition) -> Option<usize> {
        self.waiting.get(&topic_partition)?.front()?.carries.event()
    }

    /// The events of the next batch to a partition, of so many records at most.
    pub fn batch(
        &self,
        topic_partition: TopicPartition,
        records: usize,
    ) -> impl Iterator<Item = usize> {
        let queue = self.waiting.get(&topic_partition);
        queue.into_iter().flatten().take(records).filter_map(|pending| pending.carries.event())
    }

    /// Takes the dead letters that were produced since the last call, and finds the events of those
    /// that are on their way.
    pub fn take_letters(
        &mut self,
        event_of: impl Fn(EventId) -> Option<usize>,
    ) -> Vec<ProducedLetter> {
        let letters = std::mem::take(&mut self.letters);
        if !letters.is_empty() {
            for pending in self.waiting.values_mut().flatten() {
                if let Carried::Letter(id, event @ None) = &mut pending.carries {
                    *event = event_of(*id);
                }
            }
        }
        letters
    }

    /// The session whose record is stored next in a partition.
    pub fn next_session(&self, topic_partition: TopicPartition) -> Option<usize> {
        self.waiting.get(&topic_partition)?.front().map(|pending| pending.session)
    }

    /// The cluster stores the next record of a partition. Its acknowledgement has not arrived yet.
    pub fn store(&mut self, topic_partition: TopicPartition) -> Option<PendingRecord> {
        let mut pending = self.waiting.get_mut(&topic_partition)?.pop_front()?;
        let (_, id) = self.ids.iter().find(|(topic, _)| *topic == topic_partition.topic)?;
        let ticket = pending.ticket.take()?;
        self.stored.entry(topic_partition).or_default().push_back((*id, ticket));
        Some(pending)
    }

    /// The acknowledgement of the oldest stored record of a partition arrives.
    pub fn ack(&mut self, topic_partition: TopicPartition, acks: &mut Acks) {
        if let Some((id, ticket)) =
            self.stored.get_mut(&topic_partition).and_then(VecDeque::pop_front)
        {
            self.in_flight -= 1;
            acks.push(ticket, id);
        }
    }

    /// Takes a write to the state topic, unless the producer is closed.
    pub fn write(&mut self, write: Write) {
        if !self.is_closed {
            self.writes.push_back(write);
        }
    }

    /// Writes to the state topic that are not stored yet.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        self.writes.iter()
    }

    /// Whether a write waits to be stored.
    pub fn has_write(&self) -> bool {
        !self.is_closed && !self.writes.is_empty()
    }

    /// The cluster stores the next write by this, which returns its offset. Its acknowledgement
    /// has not arrived yet.
    pub fn store_write(&mut self, store: impl FnOnce(&Write) -> i64) -> Option<&Write> {
        let write = self.writes.pop_front()?;
        let offset = store(&write);
        self.written.push_back((write, offset));
        self.written.back().map(|(write, _)| write)
    }

    /// The acknowledgement of the oldest stored write arrives, with its offset.
    pub fn ack_write(&mut self) -> Option<(Write, i64)> {
        self.written.pop_front()
    }

    /// The next write fails, and the producer is closed. With [`FailedWrite::StoredLater`] the
    /// write may still be stored.
    pub fn fail_write(&mut self, outcome: FailedWrite) {
        if outcome == FailedWrite::Lost {
            self.writes.pop_front();
        }
        self.close();
    }

    /// The next record of a partition fails, and the producer is closed. Nothing more of that
    /// partition is stored, because the sequence is broken; batches on their way to other
    /// partitions may still be.
    pub fn fail(&mut self, topic_partition: TopicPartition) -> Option<TransactionRef> {
        let failed =
            self.waiting.get(&topic_partition)?.front()?.ticket.as_ref().map(Ticket::transaction);
        self.waiting.remove(&topic_partition);
        self.close();
        failed
    }

    /// Closes it: it takes no more records.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Drops what is not stored: the brokers' addresses lead to another cluster now.
    pub fn drop_unstored(&mut self) {
        self.waiting.clear();
        self.writes.clear();
    }

    /// The producer is gone. What it had sent may still be stored, in order within each partition.
    pub fn into_late_batches(mut self) -> (Vec<LateBatch>, Vec<Write>) {
        let waiting = std::mem::take(&mut self.waiting);
        let late_batch = |(topic_partition, queue): (TopicPartition, VecDeque<PendingRecord>)| {
            LateBatch { topic_partition, records: queue.into_iter().take(4).collect() }
        };
        let waiting = waiting.into_iter().filter(|(_, queue)| !queue.is_empty());
        (waiting.map(late_batch).collect(), self.writes.into())
    }
}

impl SimulatedProducer {
    fn take_letter(&mut self, record: &Record<'_>, ticket: Ticket) {
        let letter = ProducedLetter::of(record);
        self.in_flight += 1;
        if let Some(id) = letter.id {
            let (topic, partition) = (LETTERS_INDEX, record.partition);
            self.enqueue(TopicPartition { topic, partition }, Carried::Letter(id, None), ticket);
        }
        self.letters.push(letter);
    }

    fn enqueue(&mut self, topic_partition: TopicPartition, carries: Carried, ticket: Ticket) {
        let pending = PendingRecord { carries, session: self.session, ticket: Some(ticket) };
        self.waiting.entry(topic_partition).or_default().push_back(pending);
    }
}

impl RecordSink for SimulatedProducer {
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        if self.is_closed {
            return Err(Refusal { ticket, reason: RefusalReason::Closed });
        }
        if self.in_flight >= self.capacity {
            return Err(Refusal { ticket, reason: RefusalReason::Full });
        }
        let topic = self.bound.get(record.topic.index()).copied().flatten();
        if topic == Some(LETTERS_INDEX) {
            self.take_letter(record, ticket);
            return Ok(());
        }
        let headers: Vec<_> = record.headers.iter().map(|one| (one.name, one.value)).collect();
        let id = headers.first().and_then(|(_, value)| std::str::from_utf8((*value)?).ok());
        let event = id.and_then(|id| id.parse().ok());
        let index = IDS.iter().position(|id| id.as_bytes() == record.key);
        let is_intact = event.is_some_and(|event: usize| {
            let id = event.to_string();
            let expected = [("id", Some(id.as_bytes())), ("type", Some(EVENT_TYPE.as_bytes()))];
            let value = record.value.unwrap_or_default();
            let is_value = value == postgres::payload(event).as_bytes()
                || value == postgres::large_payload(event).as_bytes();
            headers == expected && is_value
        });
        let key = topic.zip(index).map(|(topic, index)| topic * IDS.len() + index);
        let partition = record.partition;
        self.produced.push(ProducedRecord { event, key, topic, partition, is_intact });
        self.in_flight += 1;
        if let (Some(event), Some(topic)) = (event, topic) {
            self.enqueue(TopicPartition { topic, partition }, Carried::Event(event), ticket);
        }
        Ok(())
    }
}
