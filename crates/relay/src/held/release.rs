//! Events on their way out of the table, a batch at a time: read in their order, produced,
//! acknowledged, and then closed in the table. Only when the table has closed them are the next
//! events read, so a crash repeats one batch at most, in the same order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Decision, EventId, HeldEvent, KeyHash, Leaving, Letter, Outcome, keys::Load};
use crate::{
    ports::AckRun,
    progress::ticket::{Ticket, TransactionRef},
    routing::record::TopicId,
};

/// The most events of a batch.
const BATCH_EVENTS: usize = 1_000;
/// The most bytes of a batch, except for a single event.
const BATCH_BYTES: usize = 4 << 20;
/// The most keys of one request.
const BATCH_KEYS: usize = 1_000;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Release {
    /// Keys whose first open events may leave.
    keys: BTreeSet<KeyHash>,
    /// Those of them that an earlier session may have begun to release.
    interrupted: BTreeSet<KeyHash>,
    batch: Option<Batch>,
    /// Numbers batches, so that late acknowledgements are told apart.
    number: u64,
    size: BatchSize,
    /// The event that the broker refused when it was produced alone.
    culprit: Option<(EventId, Letter)>,
}

/// How many events a batch may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum BatchSize {
    #[default]
    Many,
    /// A broker refused a record of a batch: each is produced alone until it is found.
    One,
}

#[derive(Debug, Default)]
struct Batch {
    /// What is still to be produced.
    waiting: VecDeque<(HeldEvent, Decision)>,
    /// What Kafka has not acknowledged.
    in_flight: u64,
    produced: Vec<EventId>,
    /// What became of the others.
    leaving: Vec<Leaving>,
    /// What leaves the table, by key.
    left: BTreeMap<KeyHash, Load>,
    /// Keys with an event in this batch that cannot be delivered: nothing passes it.
    blocked: BTreeSet<KeyHash>,
    /// The topic whose limit is being read again, since an event in front exceeds the known one.
    looking_up: Option<TopicId>,
    /// The topics whose limits were read since the batch began.
    looked_up: BTreeSet<TopicId>,
}

/// The keys, events and bytes of the next request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NextBatch {
    pub(crate) keys: Vec<KeyHash>,
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

impl Batch {
    /// The event leaves the table.
    fn count(&mut self, event: &HeldEvent) {
        let left = self.left.entry(event.hash).or_default();
        left.events += 1;
        left.bytes += u64::try_from(event.bytes()).unwrap_or(u64::MAX);
    }
}

impl Release {
    /// The first open events of these keys may leave.
    pub(crate) fn add(&mut self, keys: impl IntoIterator<Item = KeyHash>) {
        self.keys.extend(keys);
    }

    /// The first open events of these keys may leave, and an earlier session may have produced
    /// them.
    pub(crate) fn go_on(&mut self, keys: &[KeyHash]) {
        self.interrupted = keys.iter().copied().collect();
        self.add(keys.iter().copied());
    }

    /// Whether events may come again that an earlier session has produced from the table.
    pub(crate) fn is_going_on(&self) -> bool {
        !self.interrupted.is_empty()
    }

    /// Whether no batch is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.batch.is_none()
    }

    /// Whether nothing may leave, as far as is known.
    pub(crate) fn has_nothing(&self) -> bool {
        self.batch.is_none() && self.keys.is_empty()
    }

    /// What to read next, if something may leave and no batch is under way.
    pub(crate) fn next_batch(&self) -> Option<NextBatch> {
        if self.batch.is_some() || self.keys.is_empty() {
            return None;
        }
        let events = match self.size {
            BatchSize::Many => BATCH_EVENTS,
            BatchSize::One => 1,
        };
        let keys = self.keys.iter().take(BATCH_KEYS).copied().collect();
        Some(NextBatch { keys, events, bytes: BATCH_BYTES })
    }

    /// What was read for `keys`. With nothing to deliver, those keys wait for a person, or are
    /// free.
    pub(crate) fn begin(&mut self, keys: &[KeyHash], events: Vec<(HeldEvent, Decision)>) {
        if events.is_empty() {
            for key in keys {
                self.keys.remove(key);
                self.interrupted.remove(key);
            }
            if self.keys.is_empty() {
                (self.size, self.culprit) = (BatchSize::Many, None);
            }
            return;
        }
        self.number += 1;
        self.batch = Some(Batch { waiting: events.into(), ..Batch::default() });
    }

    /// The next event to produce, and what is decided about it.
    pub(crate) fn front(&self) -> Option<&(HeldEvent, Decision)> {
        self.batch.as_ref()?.waiting.front()
    }

    /// Whether nothing of the event's key may be produced in this batch.
    pub(crate) fn is_blocked(&self, event: &HeldEvent) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.blocked.contains(&event.hash))
    }

    /// Why the event was refused when it was produced alone.
    pub(crate) fn culprit(&self, id: EventId) -> Option<&Letter> {
        self.culprit.as_ref().filter(|(known, _)| *known == id).map(|(_, letter)| letter)
    }

    /// The topic that must be looked up before the event in front is offered again.
    pub(crate) fn looking_up(&self) -> Option<TopicId> {
        self.batch.as_ref()?.looking_up
    }

    /// The topic refuses the event in front. Returns whether that may be for a limit that was
    /// raised since it was read: whoever requeues an event has often just raised it.
    pub(crate) fn must_look_up(&mut self, topic: TopicId) -> bool {
        let Some(batch) = &mut self.batch else { return false };
        let must = !batch.looked_up.contains(&topic);
        batch.looking_up = must.then_some(topic);
        must
    }

    /// A topic was looked up.
    pub(crate) fn looked_up(&mut self, topic: TopicId) {
        if let Some(batch) = &mut self.batch {
            batch.looking_up.take_if(|awaited| *awaited == topic);
            batch.looked_up.insert(topic);
        }
    }

    /// A ticket for the record of the event in front.
    pub(crate) fn issue(&mut self, bytes: usize) -> Ticket {
        Ticket::of_release(self.number, Ticket::units(bytes))
    }

    /// The record of the event in front was enqueued.
    pub(crate) fn produced(&mut self) {
        let Some(batch) = &mut self.batch else { return };
        if let Some((event, _)) = batch.waiting.pop_front() {
            batch.produced.push(event.id);
            batch.count(&event);
            batch.in_flight += 1;
        }
    }

    /// A dead letter's record was enqueued beside the events of the batch.
    pub(crate) fn letter_produced(&mut self) {
        if let Some(batch) = &mut self.batch {
            batch.in_flight += 1;
        }
    }

    /// The event in front is not produced: it is dropped, or cannot be delivered.
    pub(crate) fn leave(&mut self, outcome: Outcome) {
        let Some(batch) = &mut self.batch else { return };
        if let Some((event, _)) = batch.waiting.pop_front() {
            match outcome {
                Outcome::Refused(_) => {
                    batch.blocked.insert(event.hash);
                }
                Outcome::Delivered | Outcome::Dropped => batch.count(&event),
            }
            if self.culprit.as_ref().is_some_and(|(id, _)| *id == event.id) {
                self.culprit = None;
                self.size = BatchSize::Many;
            }
            batch.leaving.push(Leaving { id: event.id, outcome });
        }
    }

    /// The event in front stays in the table, because one before it cannot be delivered.
    pub(crate) fn skip(&mut self) {
        if let Some(batch) = &mut self.batch {
            batch.waiting.pop_front();
        }
    }

    /// Nothing more of the batch is produced: the router is stopping. What is in flight is waited
    /// for.
    pub(crate) fn stop(&mut self) {
        self.keys.clear();
        if let Some(batch) = &mut self.batch {
            batch.waiting.clear();
        }
    }

    /// Whether these records are of the batch under way.
    pub(crate) fn is_of_batch(&self, records: TransactionRef) -> bool {
        self.batch.is_some() && records.is_of_release(self.number)
    }

    /// Kafka acknowledged records of the batch under way.
    pub(crate) fn acknowledged(&mut self, run: &AckRun) {
        if let Some(batch) = &mut self.batch {
            batch.in_flight = batch.in_flight.saturating_sub(u64::from(run.records));
        }
    }

    /// Records that Kafka has not acknowledged.
    pub(crate) fn in_flight(&self) -> u64 {
        self.batch.as_ref().map_or(0, |batch| batch.in_flight)
    }

    /// What became of the batch's events, once everything of it is acknowledged.
    pub(crate) fn finished(&self) -> Option<Vec<Leaving>> {
        let batch = self.batch.as_ref()?;
        if batch.in_flight > 0 || !batch.waiting.is_empty() {
            return None;
        }
        let delivered = |id: &EventId| Leaving { id: *id, outcome: Outcome::Delivered };
        Some(batch.leaving.iter().cloned().chain(batch.produced.iter().map(delivered)).collect())
    }

    /// The table has closed the batch. Returns what has left it.
    pub(crate) fn closed(&mut self) -> BTreeMap<KeyHash, Load> {
        self.batch.take().map_or_else(BTreeMap::new, |batch| batch.left)
    }

    /// A broker refused these records: the next batches have one event, until that one is found.
    /// Records of an earlier session's batch say nothing about the event in flight now.
    pub(crate) fn refused(&mut self, records: TransactionRef, letter: Letter) {
        let produced = self.batch.as_ref().map(|batch| batch.produced.as_slice());
        match (self.size, produced) {
            (BatchSize::One, Some([culprit])) if self.is_of_batch(records) => {
                self.culprit = Some((*culprit, letter));
            }
            (BatchSize::Many | BatchSize::One, _) => self.size = BatchSize::One,
        }
    }

    /// Whether a refused event is searched: each is in flight alone, also without records of the
    /// stream.
    pub(crate) fn is_searching(&self) -> bool {
        self.size == BatchSize::One
    }

    /// Whether an event is to be in flight alone, or is.
    pub(crate) fn is_alone(&self) -> bool {
        let has_records = |batch: &Batch| batch.in_flight > 0 || !batch.waiting.is_empty();
        self.is_searching() && self.batch.as_ref().is_some_and(has_records)
    }

    /// The session is over. What was produced is read again from the table by the next session.
    pub(crate) fn session_ended(&mut self) {
        self.batch = None;
        self.keys.clear();
        self.interrupted.clear();
    }
}
