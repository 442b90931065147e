//! What is asked of Kafka beside the stream, and when: the partitions of the topics in use, and
//! whether anybody answers at all. Everything belongs to one producer; what a former producer's
//! client still answers is thrown away.

use std::{collections::HashMap, time::Duration};

use relay::{Failure, TopicId};
use tokio::time::Instant;

use super::ports::Kafka;

/// How often the partition counts of the topics in use are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// The same while Kafka is in trouble: the look that succeeds is what ends `blocked` on an idle
/// outbox.
const LOOK_WHEN_TROUBLED: Duration = Duration::from_secs(1);
/// How long after a producer could not be made the next is tried.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// How many topics are looked up after a look: each is a request of its own.
const LOOKED_UP_AT_ONCE: usize = 16;

/// Numbers producers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Generation(u64);

/// See the module's documentation.
pub(super) struct TopicRefresher<K: Kafka> {
    generation: Generation,
    phase: Phase<K>,
    /// How many looks were done.
    looks: usize,
    /// What was said of topics, so that it is said once.
    said: HashMap<TopicId, Failure>,
}

enum Phase<K: Kafka> {
    /// A producer is being made.
    Opening,
    /// None could be made.
    Unavailable { again_at: Instant },
    /// There is one; the next look at its topics, unless one is under way.
    Open { directory: K::Directory, state: Option<Box<K::StateTopic>>, look_at: Option<Instant> },
}

/// What is due.
pub(super) enum Due<K: Kafka> {
    /// A look at the topics.
    Look(K::Directory),
    /// Another attempt to make a producer.
    Open,
}

impl<K: Kafka> TopicRefresher<K> {
    pub(super) fn new() -> Self {
        Self {
            generation: Generation::default(),
            phase: Phase::Opening,
            looks: 0,
            said: HashMap::new(),
        }
    }

    /// A new producer is being made: what is asked of the former one says nothing any more.
    pub(super) fn opening(&mut self) {
        self.generation = Generation(self.generation.0 + 1);
        self.phase = Phase::Opening;
    }

    pub(super) fn opened(&mut self, directory: K::Directory, state: Option<K::StateTopic>) {
        let look_at = Some(Instant::now() + LOOK_EVERY);
        self.phase = Phase::Open { directory, state: state.map(Box::new), look_at };
    }

    pub(super) fn failed_to_open(&mut self) {
        self.phase = Phase::Unavailable { again_at: Instant::now() + TRY_AGAIN };
    }

    /// Lets go of the producer's client, so that closing the producer destroys it.
    pub(super) fn release(&mut self) {
        self.phase = Phase::Opening;
    }

    pub(super) fn generation(&self) -> Generation {
        self.generation
    }

    pub(super) fn directory(&self) -> Option<&K::Directory> {
        match &self.phase {
            Phase::Open { directory, .. } => Some(directory),
            Phase::Opening | Phase::Unavailable { .. } => None,
        }
    }

    pub(super) fn state(&self) -> Option<&K::StateTopic> {
        match &self.phase {
            Phase::Open { state, .. } => state.as_deref(),
            Phase::Opening | Phase::Unavailable { .. } => None,
        }
    }

    /// Something is wrong, or may be: look soon.
    pub(super) fn troubled(&mut self) {
        if let Phase::Open { look_at: Some(look_at), .. } = &mut self.phase {
            *look_at = (*look_at).min(Instant::now() + LOOK_WHEN_TROUBLED);
        }
    }

    /// A look is done.
    pub(super) fn looked(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        if let Phase::Open { look_at, .. } = &mut self.phase {
            *look_at = Some(Instant::now() + LOOK_EVERY);
        }
    }

    /// The caution about a topic, unless it was given before.
    pub(super) fn news<'f>(
        &mut self,
        id: TopicId,
        caution: Option<&'f Failure>,
    ) -> Option<&'f Failure> {
        match caution {
            None => {
                self.said.remove(&id);
                None
            }
            Some(caution) => {
                let before = self.said.insert(id, caution.clone());
                (before.as_ref() != Some(caution)).then_some(caution)
            }
        }
    }

    /// Some of the topics to look up after a look; the others have their turn after one of the
    /// next.
    pub(super) fn some_of<T>(&self, mut topics: Vec<T>) -> Vec<T> {
        if topics.len() > LOOKED_UP_AT_ONCE {
            let turn = self.looks.wrapping_mul(LOOKED_UP_AT_ONCE) % topics.len();
            topics.rotate_left(turn);
            topics.truncate(LOOKED_UP_AT_ONCE);
        }
        topics
    }

    /// What to do now; it counts as begun.
    pub(super) fn due(&mut self, now: Instant) -> Option<Due<K>> {
        match &mut self.phase {
            Phase::Unavailable { again_at } if *again_at <= now => Some(Due::Open),
            Phase::Open { directory, look_at, .. }
                if look_at.is_some_and(|look_at| look_at <= now) =>
            {
                *look_at = None;
                Some(Due::Look(directory.clone()))
            }
            Phase::Opening | Phase::Unavailable { .. } | Phase::Open { .. } => None,
        }
    }

    /// When to ask for [`TopicRefresher::due`] again. While something is under way its end is an
    /// event of its own.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Opening => None,
            Phase::Unavailable { again_at } => Some(*again_at),
            Phase::Open { look_at, .. } => *look_at,
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
    fn every_topic_has_its_turn() {
        let mut refresher = TopicRefresher::<KafkaSettings>::new();
        assert_eq!(refresher.some_of(vec![1, 2, 3]), [1, 2, 3]);
        let mut left: Vec<usize> = (0..100).collect();
        for _ in 0..100_usize.div_ceil(LOOKED_UP_AT_ONCE) {
            refresher.looked();
            let some = refresher.some_of((0..100).collect::<Vec<_>>());
            assert_eq!(some.len(), LOOKED_UP_AT_ONCE);
            left.retain(|topic| !some.contains(topic));
        }
        assert!(left.is_empty(), "{left:?}");
    }
}
