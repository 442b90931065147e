//! A producer in memory with a queue per partition. The test decides when a record is stored and
//! when it is acknowledged.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    ports::{Acks, RecordSink, Refusal, RefusalReason},
    progress::ticket::{Ticket, TransactionRef},
    routing::record::{Record, TopicId},
};

/// A partition of a topic.
pub type Lane = (TopicId, i32);

/// A [`Record`] that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducedRecord {
    /// Where to.
    pub topic: TopicId,
    /// Where to.
    pub partition: i32,
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Option<Vec<u8>>,
    /// Names and values.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
}

impl From<&Record<'_>> for ProducedRecord {
    fn from(record: &Record<'_>) -> Self {
        let header =
            |header: crate::Header<'_>| (header.name.to_owned(), header.value.map(<[u8]>::to_vec));
        Self {
            topic: record.topic,
            partition: record.partition,
            key: record.key.to_vec(),
            value: record.value.map(<[u8]>::to_vec),
            headers: record.headers.iter().map(header).collect(),
            timestamp_ms: record.timestamp_ms,
        }
    }
}

/// The queues of one producer. Records that were not stored are lost with the producer.
#[derive(Debug)]
pub struct MemorySink {
    capacity: usize,
    closed: Option<TransactionRef>,
    lanes: BTreeMap<Lane, Queue>,
    in_flight: usize,
    produced: Vec<ProducedRecord>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(ProducedRecord, Ticket)>,
    stored: VecDeque<Ticket>,
}

impl MemorySink {
    /// A sink that is full at `capacity` unacknowledged records.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, closed: None, lanes: BTreeMap::new(), in_flight: 0, produced: Vec::new() }
    }

    /// Every record that was taken, in order.
    pub fn produced(&self) -> &[ProducedRecord] {
        &self.produced
    }

    /// Clears [`MemorySink::produced`]; records in flight stay.
    pub fn forget(&mut self) {
        self.produced.clear();
    }

    /// Records that are not acknowledged.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Partitions with a record that is not stored.
    pub fn waiting(&self) -> Vec<Lane> {
        self.lanes.iter().filter(|(_, q)| !q.waiting.is_empty()).map(|(lane, _)| *lane).collect()
    }

    /// Partitions with a stored record that is not acknowledged.
    pub fn stored(&self) -> Vec<Lane> {
        self.lanes.iter().filter(|(_, q)| !q.stored.is_empty()).map(|(lane, _)| *lane).collect()
    }

    /// The records of a partition that are not stored, in order.
    pub fn waiting_records(&self, lane: Lane) -> impl Iterator<Item = &ProducedRecord> {
        let queue = self.lanes.get(&lane);
        queue.into_iter().flat_map(|queue| queue.waiting.iter().map(|(record, _)| record))
    }

    /// The record of a partition that would be stored next.
    pub fn next(&self, lane: Lane) -> Option<&ProducedRecord> {
        self.lanes.get(&lane)?.waiting.front().map(|(record, _)| record)
    }

    /// The broker stores the next record of a partition: the record cannot be lost any more, but is
    /// not acknowledged yet.
    pub fn store(&mut self, lane: Lane) -> Option<ProducedRecord> {
        let queue = self.lanes.get_mut(&lane)?;
        let (record, ticket) = queue.waiting.pop_front()?;
        queue.stored.push_back(ticket);
        Some(record)
    }

    /// The acknowledgement of the oldest stored record of a partition arrives.
    pub fn ack(&mut self, lane: Lane, acks: &mut Acks) {
        if let Some(ticket) = self.lanes.get_mut(&lane).and_then(|queue| queue.stored.pop_front()) {
            self.in_flight -= 1;
            acks.push(ticket, lane.0);
        }
    }

    /// Stores and acknowledges everything.
    pub fn ack_all(&mut self) -> Acks {
        let mut acks = Acks::default();
        for lane in self.waiting() {
            while self.store(lane).is_some() {}
        }
        for lane in self.stored() {
            while self.lanes.get(&lane).is_some_and(|queue| !queue.stored.is_empty()) {
                self.ack(lane, &mut acks);
            }
        }
        acks
    }

    /// The next record of a partition fails. As a gapless producer does, the sink takes and stores
    /// nothing after it.
    pub fn fail(&mut self, lane: Lane) -> Option<TransactionRef> {
        let (_, ticket) = self.lanes.get(&lane)?.waiting.front()?;
        let transaction = ticket.transaction();
        self.closed = Some(transaction);
        for queue in self.lanes.values_mut() {
            queue.waiting.clear();
        }
        Some(transaction)
    }

    /// Whether a record failed.
    pub fn is_closed(&self) -> bool {
        self.closed.is_some()
    }
}

impl RecordSink for MemorySink {
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        if self.is_closed() {
            return Err(Refusal { ticket, reason: RefusalReason::Closed });
        }
        if self.in_flight >= self.capacity {
            return Err(Refusal { ticket, reason: RefusalReason::Full });
        }
        let stored = ProducedRecord::from(record);
        self.produced.push(stored.clone());
        self.in_flight += 1;
        let queue = self.lanes.entry((record.topic, record.partition)).or_default();
        queue.waiting.push_back((stored, ticket));
        Ok(())
    }
}
