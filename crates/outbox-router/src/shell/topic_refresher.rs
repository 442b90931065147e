//! Decides when Kafka is asked about the topics in use (their partition counts, and whether any
//! broker answers), and when a producer that could not be made is tried again. Everything here
//! belongs to one producer; late answers of a former producer's client are discarded.

use std::{collections::HashMap, time::Duration};

use relay::{Failure, TopicId};
use tokio::time::Instant;

use super::ports::Kafka;

/// How often the partition counts of the topics in use are read.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);
/// The same while Kafka has trouble. On an idle outbox only a read that succeeds ends the state
/// `blocked`.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The wait before the first read: a topic that was deleted while no router ran is to be missed
/// soon. A session has mostly begun by then, and has read from the witness which topics there were.
const FIRST_READ: Duration = Duration::from_secs(1);
/// The wait before the next attempt to make a producer, after one failed.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// How many topics are looked up after one read of the topics in use. Each is a request of its own.
const LOOKED_UP_AT_ONCE: usize = 16;

/// The number of a producer. An answer carries the number of the producer through whose client it
/// was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ProducerNumber(u64);

/// See the module's documentation.
pub(super) struct TopicRefresher<K: Kafka> {
    producer_number: ProducerNumber,
    phase: RefreshPhase<K>,
    /// How many reads of the topics in use are done; chooses the next topics in `some_of`.
    reads_done: usize,
    /// The last caution about each topic, so that each is logged once.
    cautions: HashMap<TopicId, Failure>,
}

enum RefreshPhase<K: Kafka> {
    /// A producer is being made.
    Opening,
    /// A producer could not be made.
    Unavailable { again_at: Instant },
    /// There is a producer. `check_at` is the time of the next read of its topics; `None` while a
    /// read is under way, behind which another one may be wanted soon.
    Open {
        topic_client: K::TopicClient,
        state: Option<Box<K::StateTopic>>,
        check_at: Option<Instant>,
        is_wanted: bool,
    },
}

/// What is due.
pub(super) enum RefreshDue<K: Kafka> {
    /// A read of the topics in use.
    Read(K::TopicClient),
    /// Another attempt to make a producer.
    Open,
}

impl<K: Kafka> TopicRefresher<K> {
    pub(super) fn new() -> Self {
        Self {
            producer_number: ProducerNumber::default(),
            phase: RefreshPhase::Opening,
            reads_done: 0,
            cautions: HashMap::new(),
        }
    }

    /// A new producer is being made. Answers that were asked for through the former one no longer
    /// count.
    pub(super) fn opening(&mut self) {
        self.producer_number = ProducerNumber(self.producer_number.0 + 1);
        self.phase = RefreshPhase::Opening;
    }

    pub(super) fn opened(&mut self, topic_client: K::TopicClient, state: Option<K::StateTopic>) {
        let check_at = Some(Instant::now() + FIRST_READ);
        let (state, is_wanted) = (state.map(Box::new), false);
        self.phase = RefreshPhase::Open { topic_client, state, check_at, is_wanted };
    }

    pub(super) fn failed_to_open(&mut self) {
        self.phase = RefreshPhase::Unavailable { again_at: Instant::now() + TRY_AGAIN };
    }

    /// Releases the producer's client, so that closing the producer destroys it.
    pub(super) fn release(&mut self) {
        self.phase = RefreshPhase::Opening;
    }

    pub(super) fn producer_number(&self) -> ProducerNumber {
        self.producer_number
    }

    pub(super) fn topic_client(&self) -> Option<&K::TopicClient> {
        match &self.phase {
            RefreshPhase::Open { topic_client, .. } => Some(topic_client),
            RefreshPhase::Opening | RefreshPhase::Unavailable { .. } => None,
        }
    }

    pub(super) fn state(&self) -> Option<&K::StateTopic> {
        match &self.phase {
            RefreshPhase::Open { state, .. } => state.as_deref(),
            RefreshPhase::Opening | RefreshPhase::Unavailable { .. } => None,
        }
    }

    /// Kafka has trouble, or may have, or a session has begun, whose topics are to be seen: brings
    /// the next read forward.
    pub(super) fn hasten(&mut self) {
        match &mut self.phase {
            RefreshPhase::Open { check_at: Some(check_at), .. } => {
                *check_at = (*check_at).min(Instant::now() + RETRY_INTERVAL);
            }
            RefreshPhase::Open { check_at: None, is_wanted, .. } => *is_wanted = true,
            RefreshPhase::Opening | RefreshPhase::Unavailable { .. } => {}
        }
    }

    /// A read of the topics in use is done: sets the time of the next.
    pub(super) fn refreshed(&mut self) {
        self.reads_done = self.reads_done.wrapping_add(1);
        if let RefreshPhase::Open { check_at, is_wanted, .. } = &mut self.phase {
            let wait = if std::mem::take(is_wanted) { RETRY_INTERVAL } else { REFRESH_INTERVAL };
            *check_at = Some(Instant::now() + wait);
        }
    }

    /// The caution about a topic, if it differs from the last one about that topic.
    pub(super) fn news<'f>(
        &mut self,
        id: TopicId,
        caution: Option<&'f Failure>,
    ) -> Option<&'f Failure> {
        match caution {
            None => {
                self.cautions.remove(&id);
                None
            }
            Some(caution) => {
                let before = self.cautions.insert(id, caution.clone());
                (before.as_ref() != Some(caution)).then_some(caution)
            }
        }
    }

    /// Chooses the topics to look up after a read. The others are chosen after one of the next
    /// reads.
    pub(super) fn some_of<T>(&self, mut topics: Vec<T>) -> Vec<T> {
        if topics.len() > LOOKED_UP_AT_ONCE {
            let turn = self.reads_done.wrapping_mul(LOOKED_UP_AT_ONCE) % topics.len();
            topics.rotate_left(turn);
            topics.truncate(LOOKED_UP_AT_ONCE);
        }
        topics
    }

    /// What to do now, if anything. A read that is returned counts as started.
    pub(super) fn due(&mut self, now: Instant) -> Option<RefreshDue<K>> {
        match &mut self.phase {
            RefreshPhase::Unavailable { again_at } if *again_at <= now => Some(RefreshDue::Open),
            RefreshPhase::Open { topic_client, check_at, .. }
                if check_at.is_some_and(|check_at| check_at <= now) =>
            {
                *check_at = None;
                Some(RefreshDue::Read(topic_client.clone()))
            }
            RefreshPhase::Opening
            | RefreshPhase::Unavailable { .. }
            | RefreshPhase::Open { .. } => None,
        }
    }

    /// When to call [`TopicRefresher::due`] again. `None` while something is under way, whose end
    /// is an event of its own.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        match &self.phase {
            RefreshPhase::Opening => None,
            RefreshPhase::Unavailable { again_at } => Some(*again_at),
            RefreshPhase::Open { check_at, .. } => *check_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use relay::Code;

    use super::*;
    use crate::kafka::KafkaSettings;

    #[test]
    fn a_caution_is_given_once_until_it_changes() {
        let mut refresher = TopicRefresher::<KafkaSettings>::new();
        let [a, b] = [0, 1].map(|index| TopicId::from_index(index).unwrap());
        let first = Failure::new(Code::TopicTimestamps, "first");
        let other = Failure::new(Code::TopicTimestamps, "other");
        assert_eq!(refresher.news(a, Some(&first)), Some(&first));
        assert_eq!(refresher.news(b, Some(&first)), Some(&first));
        assert_eq!(refresher.news(a, Some(&first)), None);
        assert_eq!(refresher.news(a, Some(&other)), Some(&other));
        assert_eq!(refresher.news(a, None), None);
        assert_eq!(refresher.news(a, Some(&other)), Some(&other));
    }

    #[test]
    fn every_topic_is_refreshed_in_turn() {
        let mut refresher = TopicRefresher::<KafkaSettings>::new();
        assert_eq!(refresher.some_of(vec![1, 2, 3]), [1, 2, 3]);
        let mut left: Vec<usize> = (0..100).collect();
        for _ in 0..100_usize.div_ceil(LOOKED_UP_AT_ONCE) {
            refresher.refreshed();
            let some = refresher.some_of((0..100).collect::<Vec<_>>());
            assert_eq!(some.len(), LOOKED_UP_AT_ONCE);
            left.retain(|topic| !some.contains(topic));
        }
        assert!(left.is_empty(), "{left:?}");
    }
}
