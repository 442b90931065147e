//! Checks the invariants after every step: compares what reached Kafka and what was confirmed with
//! what was committed.

use std::collections::{BTreeMap, BTreeSet};

use relay::HoldKeys;

use crate::{
    history::{CommitHistory, CommittedEvent, IDS, KEYS, TYPES},
    invariant::{Invariant, Violation},
    kafka::{ProducedRecord, SimulatedKafka, SimulatedTopic, partition},
    plan::{DeadLetters, LettersTopic, StateTopicSetting},
};

mod held;
mod letters;
mod order;
mod positions;

/// What is known of one session: one replication connection of one router.
#[derive(Debug)]
struct CheckedSession {
    /// Serial number of the first event that it produced.
    first: Option<u64>,
    /// Of each key, the place of the last record of this session that Kafka has.
    last: [Option<u64>; KEYS],
    /// The serial number after the last event that was produced before this session began.
    produced_before: u64,
    /// How many events that were produced before this session, and that Kafka has, this session has
    /// produced again.
    repeated: u64,
    /// The most that it may repeat.
    bound: u64,
    /// The partition counts that the events before this session were produced under; None where
    /// they are not known.
    partition_counts: [Option<i32>; TYPES.len()],
    /// The topics that it has produced to.
    topics: [bool; TYPES.len()],
    /// Index of the newest event that it produced.
    newest: Option<usize>,
    /// Where its window begins: the highest position that it has sent in a status update (without a
    /// witness), or that its witness names.
    window_start: u64,
    /// Whether it must not produce any more.
    is_over: bool,
    /// The held events that it has released.
    released: BTreeSet<usize>,
}

/// Where a record comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From the WAL.
    Stream,
    /// From the table of held events.
    Release,
}

/// How a record reached its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredBy {
    /// From the producer of a router that runs.
    OpenProducer,
    /// From a producer that is gone: the request was on its way.
    ClosedProducer,
    /// The cluster stored a batch twice.
    ClusterRetry,
}

/// See the module's documentation.
pub struct InvariantChecker {
    violation: Option<Violation>,
    sessions: Vec<CheckedSession>,
    /// Distinct events per key that Kafka has.
    stored: [u64; KEYS],
    /// Of each key, the newest session that has produced it, and the place of that session's last
    /// record.
    tail: [Option<(usize, u64)>; KEYS],
    /// The serial number after the last event that any session produced.
    produced: u64,
    /// Records that repeat one that Kafka had.
    pub duplicates: u64,
    /// Records stored, duplicates included.
    pub records: u64,
    state_topic: StateTopicSetting,
    /// The highest position of a witness whose write was acknowledged.
    witness_position: u64,
    /// `limits.window_events`: events that may lie past the position where a window begins.
    window: u64,
    /// Events so far that allow duplicates.
    interruptions: u64,
    /// Held events that were released and not refused since.
    released: BTreeSet<usize>,
    /// Where held events went that were released since a batch of them was last cut short.
    released_to: BTreeMap<usize, i32>,
    /// What becomes of events that cannot be delivered.
    dead_letters: Option<DeadLetters>,
}

impl InvariantChecker {
    /// For routers with these settings.
    pub fn new(
        window: u64,
        state_topic: StateTopicSetting,
        dead_letters: Option<DeadLetters>,
    ) -> Self {
        Self {
            violation: None,
            sessions: Vec::new(),
            stored: [0; KEYS],
            tail: [None; KEYS],
            produced: 0,
            duplicates: 0,
            records: 0,
            state_topic,
            witness_position: 0,
            window,
            interruptions: 0,
            released: BTreeSet::new(),
            released_to: BTreeMap::new(),
            dead_letters,
        }
    }

    /// Whether the later events of a dead letter's key are held behind it.
    pub fn holds_keys(&self) -> bool {
        self.dead_letters.is_some_and(|letters| letters.hold_keys == HoldKeys::Yes)
    }

    /// Whether dead letters are written to a topic.
    pub fn has_letters_topic(&self) -> bool {
        self.dead_letters.is_some_and(|letters| letters.topic == LettersTopic::Used)
    }

    /// Reports that an invariant does not hold. Only the first violation is kept.
    pub fn report_violation(&mut self, invariant: Invariant, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { invariant, what: what() });
        }
    }

    /// The first violation.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Records an event after which records may be sent again.
    pub fn note_interruption(&mut self) {
        self.interruptions += 1;
    }

    /// A session begins that produces what lies past `from`. `extra` of these events may come
    /// again beyond the window: they were confirmed before, and the confirmation was lost. Returns
    /// the session's number.
    pub fn begin_session(&mut self, history: &CommitHistory, from: u64, extra: u64) -> usize {
        let again = self.produced.saturating_sub(history.serial_past(from));
        let bound = self.window.max(history.largest_past(from)) + extra;
        if again > bound {
            self.report_violation(Invariant::S4Duplicates, || {
                format!(
                    "a session repeats {again} events, and only {bound} may have been in flight"
                )
            });
        }
        if again > 0 && self.interruptions == 0 {
            self.report_violation(Invariant::S4Duplicates, || {
                format!("a session repeats {again} events, and nothing was interrupted before")
            });
        }
        self.sessions.push(CheckedSession {
            first: None,
            produced_before: self.produced,
            repeated: 0,
            bound,
            partition_counts: [None; TYPES.len()],
            topics: [false; TYPES.len()],
            newest: None,
            last: [None; KEYS],
            window_start: from,
            is_over: false,
            released: BTreeSet::new(),
        });
        self.sessions.len() - 1
    }

    /// Sets the partition counts that the events in flight before a session were produced under: it
    /// has to produce them to the same partitions.
    pub fn set_partition_counts(
        &mut self,
        session: usize,
        partition_counts: [Option<i32>; TYPES.len()],
    ) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.partition_counts = partition_counts;
        }
    }

    /// A session must not produce any more: its router has ended it, or its process is gone, or was
    /// stopped for so long that another may have taken over.
    pub fn end_session(&mut self, session: usize) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.is_over = true;
        }
    }

    /// The core gave a record to the producer.
    pub fn check_produced(
        &mut self,
        history: &CommitHistory,
        kafka: &SimulatedKafka,
        (session, origin): (usize, Origin),
        produced: &ProducedRecord,
    ) {
        let Some(event) = produced.event.and_then(|number| history.events.get(number)) else {
            self.report_violation(Invariant::S6Fidelity, || {
                format!("no committed row has the id of {produced:?}")
            });
            return;
        };
        let topic = event.key / IDS.len();
        let id = IDS[event.key % IDS.len()].as_bytes();
        let is_right =
            produced.key == Some(event.key) && produced.is_intact && event.is_published();
        if !is_right {
            self.report_violation(Invariant::S6Fidelity, || {
                format!("{produced:?} was produced for {event:?}")
            });
        }
        let counts = &kafka.topics[topic].counts;
        if !counts.iter().any(|count| partition::of_key(id, *count) == produced.partition) {
            self.report_violation(Invariant::S3Order, || {
                format!(
                    "a record with a key of {} was produced to partition {}",
                    TYPES[topic], produced.partition
                )
            });
        }
        let is_again = |number: usize| origin == Origin::Stream || self.released.contains(&number);
        let pinned = self.sessions.get(session).filter(|one| {
            event.serial < one.produced_before && produced.event.is_some_and(is_again)
        });
        // A topic that was re-created with fewer partitions holds no record from before.
        let SimulatedTopic { partitions, fewest, .. } = &kafka.topics[topic];
        let most = partitions.unwrap_or(0).min(fewest.unwrap_or(i32::MAX));
        let pin = pinned.and_then(|one| one.partition_counts[topic]).filter(|count| *count <= most);
        if event.is_real && pin.is_some_and(|pin| partition::of_key(id, pin) != produced.partition)
        {
            self.report_violation(Invariant::S3Order, || {
                format!(
                    "event {:?} was produced again, to another partition: {}",
                    produced.event, produced.partition
                )
            });
        }
        if let Some(number) = produced.event.filter(|_| event.is_real) {
            self.check_against_table(history, (session, origin), (number, event));
            // A process that had the slot before may know another count than its latest holder.
            let own = self.sessions.get(session);
            let is_pinned = own.is_some_and(|own| own.partition_counts[topic].is_some());
            let is_checked = is_pinned && fewest.is_none() && self.is_newest(session);
            if origin == Origin::Release {
                let before = self.released_to.insert(number, produced.partition);
                let before = before.filter(|_| is_checked && !event.is_reopened);
                self.check_released_partition(number, before, produced.partition);
            }
        }
        self.check_window(history, (session, origin), (produced.event, event));
    }

    fn check_window(
        &mut self,
        history: &CommitHistory,
        (session, origin): (usize, Origin),
        (number, event): (Option<usize>, &CommittedEvent),
    ) {
        if event.is_real && origin == Origin::Stream {
            self.produced = self.produced.max(event.serial + 1);
        }
        let Some(log) = self.sessions.get_mut(session) else { return };
        if log.is_over {
            self.report_violation(Invariant::S7SingleWriter, || {
                "a session that has ended produces a record".to_owned()
            });
            return;
        }
        // What is released has left the window when it was held.
        if !event.is_real || origin == Origin::Release {
            return;
        }
        log.newest = number.max(log.newest);
        let first = *log.first.get_or_insert(event.serial);
        let from = first.max(history.serial_past(log.window_start));
        log.repeated += u64::from(event.is_stored && event.serial < log.produced_before);
        let (repeated, limit) = (log.repeated, log.bound);
        let past = (event.serial + 1).saturating_sub(from);
        let own = history.transactions.get(event.transaction).map_or(0, |own| own.events.len());
        let bound = self.window.max(u64::try_from(own).expect("a length fits"));
        if past > bound {
            self.report_violation(Invariant::S4Duplicates, || {
                format!("{past} events were produced past the start of the window, and only {bound} may be")
            });
        }
        if repeated > limit {
            self.report_violation(Invariant::S4Duplicates, || {
                format!(
                    "a session repeats {repeated} events, and only {limit} may have been in flight"
                )
            });
        }
    }

    /// Whether no session has begun since this one.
    pub fn is_newest(&self, session: usize) -> bool {
        session.wrapping_add(1) == self.sessions.len()
    }

    /// Whether this is the first time that a session produces to this topic.
    pub fn note_first_of_topic(&mut self, session: usize, topic: usize) -> bool {
        let log = self.sessions.get_mut(session);
        log.is_some_and(|log| !std::mem::replace(&mut log.topics[topic], true))
    }

    /// The index of the newest event that a session has produced.
    pub fn newest(&self, session: usize) -> Option<usize> {
        self.sessions.get(session)?.newest
    }

    /// The server's history was cut: takes the counts back to it.
    pub fn truncate_history(&mut self, history: &CommitHistory) {
        for (stored, index) in self.stored.iter_mut().zip(history.next_in_key) {
            *stored = (*stored).min(index);
        }
        for (tail, index) in self.tail.iter_mut().zip(history.next_in_key) {
            *tail =
                tail.and_then(|(session, last)| Some((session, last.min(index.checked_sub(1)?))));
        }
        self.produced = self.produced.min(history.serial);
        self.witness_position = self.witness_position.min(history.end_of_wal);
    }
}

#[cfg(test)]
mod tests;
