//! The topics in use: interned once, referred to by number, and produced to only when their
//! partitions are known.
//!
//! librdkafka would enqueue records for an unknown topic and fail them later, one by one, after
//! records of other topics; and `enable.gapless.guarantee` covers only errors in a produce
//! *response*. So a record for a topic that has not been looked up waits, and with it everything
//! after it.
//!
//! A witness in Kafka must name a topic's partition count before the first record is
//! produced under that count: the next process has to send what comes again to the same partitions,
//! although the topic may have grown meanwhile.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroI32,
    time::Duration,
};

use crate::{
    clock::Moment,
    failure::{Code, Failure},
    progress::WitnessStore,
    routing::{record::TopicId, topic::TopicName},
};

/// What is known of a topic that can be produced to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicFacts {
    /// Its partition count, pinned until everything produced under it is acknowledged.
    pub partitions: NonZeroI32,
    /// `max.message.bytes`; `None` where the broker did not return it.
    pub max_message_bytes: Option<usize>,
}

/// The time from a refused look-up to the next.
const LOOK_UP_RETRY: Duration = Duration::from_secs(1);
/// The time after which a look-up without an answer is repeated: the answer may have been lost with
/// a replaced producer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
enum Knowledge {
    /// No answer yet, or the answer no longer holds.
    Unknown,
    /// It can be produced to.
    Known(TopicFacts),
    /// It cannot be produced to, for this reason.
    Refused(Failure),
}

impl Knowledge {
    /// Whether no cluster has such a topic.
    fn is_illegal(&self) -> bool {
        matches!(self, Self::Refused(failure) if failure.code == Code::TopicIllegal)
    }

    /// Whether the knowledge stands until a look-up is asked for; any other refusal is looked up
    /// again by itself.
    fn is_answer(&self) -> bool {
        matches!(self, Self::Known(_)) || self.is_illegal()
    }
}

#[derive(Debug)]
struct Topic {
    name: TopicName,
    knowledge: Knowledge,
    /// The earliest moment of the next look-up; of a known topic, when that was answered.
    look_up_at: Moment,
    /// Records that were produced to it and are not acknowledged.
    in_flight: u64,
    /// The partition count that the witness names.
    recorded: Option<NonZeroI32>,
}

/// Whether a topic may be produced to under its partition count: a witness in Kafka has to name
/// that count or a greater one.
#[inline]
fn is_recorded(store: WitnessStore, recorded: Option<NonZeroI32>, facts: &TopicFacts) -> bool {
    store == WitnessStore::Memory || recorded >= Some(facts.partitions)
}

/// The partition counts that the witness names, by topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordedPartitions<'w> {
    pub(crate) partitions: Option<&'w BTreeMap<String, i32>>,
    /// How many topics a witness can name. When it is full, topics that it does not name do not
    /// wait for it.
    pub(crate) limit: usize,
}

/// The registry of topics.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    store: WitnessStore,
    topics: Vec<Topic>,
    by_name: HashMap<TopicName, TopicId>,
    /// Whether a partition count has changed since [`Topics::take_news`].
    news: Unreported,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Unreported {
    #[default]
    None,
    Some,
}

/// Whether a record for a topic can be produced now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready(TopicFacts),
    /// A look-up, or the witness, is waited for.
    Pending,
    /// No cluster has a topic of this name: the row is at fault.
    Illegal,
}

impl Topics {
    pub(crate) fn new(store: WitnessStore) -> Self {
        Self { store, ..Self::default() }
    }

    /// The number of a topic; a new topic is added.
    pub(crate) fn intern(&mut self, name: TopicName) -> Result<TopicId, Failure> {
        if let Some(id) = self.by_name.get(&name) {
            return Ok(*id);
        }
        let id = TopicId::from_index(self.topics.len()).ok_or_else(|| {
            Failure::new(Code::TooManyTopics, "more than 65536 topics are in use")
        })?;
        self.topics.push(Topic {
            name: name.clone(),
            knowledge: Knowledge::Unknown,
            look_up_at: Moment::default(),
            in_flight: 0,
            recorded: None,
        });
        self.by_name.insert(name, id);
        Ok(id)
    }

    /// Whether it can be produced to.
    #[inline]
    pub(crate) fn readiness(&self, id: TopicId) -> Readiness {
        match self.topics.get(id.index()) {
            Some(Topic { knowledge: Knowledge::Known(facts), recorded, .. })
                if is_recorded(self.store, *recorded, facts) =>
            {
                Readiness::Ready(*facts)
            }
            Some(topic) if topic.knowledge.is_illegal() => Readiness::Illegal,
            _ => Readiness::Pending,
        }
    }

    /// Another session begins: its record has to name all partition counts again.
    pub(crate) fn report_again(&mut self) {
        self.news = Unreported::Some;
    }

    /// The witness was written or read, and names these partition counts.
    pub(crate) fn partitions_recorded(&mut self, recorded: RecordedPartitions<'_>) {
        if self.store == WitnessStore::Memory {
            return;
        }
        let is_full = recorded.partitions.is_some_and(|known| known.len() >= recorded.limit);
        for topic in &mut self.topics {
            let Knowledge::Known(facts) = topic.knowledge else { continue };
            let known = recorded.partitions.and_then(|known| known.get(topic.name.as_str()));
            topic.recorded = match known {
                None if is_full => Some(facts.partitions),
                known => known.copied().and_then(NonZeroI32::new),
            };
        }
    }

    /// The name of an interned topic.
    pub(crate) fn name(&self, id: TopicId) -> Option<&TopicName> {
        self.topics.get(id.index()).map(|topic| &topic.name)
    }

    /// The names of all topics, in the order of first use.
    pub(crate) fn names(&self) -> impl Iterator<Item = &TopicName> {
        self.topics.iter().map(|topic| &topic.name)
    }

    /// The topics whose look-up succeeded.
    pub(crate) fn known(&self) -> impl Iterator<Item = (TopicId, &TopicName)> {
        self.topics.iter().enumerate().filter_map(|(index, topic)| match topic.knowledge {
            Knowledge::Known(_) => Some((TopicId::from_index(index)?, &topic.name)),
            Knowledge::Unknown | Knowledge::Refused(_) => None,
        })
    }

    /// Names and partition counts of the topics whose look-up succeeded.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (&str, i32)> {
        self.topics.iter().filter_map(|topic| match topic.knowledge {
            Knowledge::Known(facts) => Some((topic.name.as_str(), facts.partitions.get())),
            Knowledge::Unknown | Knowledge::Refused(_) => None,
        })
    }

    /// Whether the result of [`Topics::partitions`] may have changed since the last call.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news) == Unreported::Some
    }

    /// A record was produced to it.
    #[inline]
    pub(crate) fn produced(&mut self, id: TopicId) {
        if let Some(topic) = self.topics.get_mut(id.index()) {
            topic.in_flight += 1;
        }
    }

    /// Records of it were acknowledged.
    pub(crate) fn acknowledged(&mut self, id: TopicId, records: u32) {
        if let Some(topic) = self.topics.get_mut(id.index()) {
            topic.in_flight = topic.in_flight.saturating_sub(u64::from(records));
        }
    }

    /// Records that were produced to it and are not acknowledged.
    pub(crate) fn in_flight(&self, id: TopicId) -> u64 {
        self.topics.get(id.index()).map_or(0, |topic| topic.in_flight)
    }

    /// Why it cannot be produced to, if the last look-up was refused.
    pub(crate) fn refusal(&self, id: TopicId) -> Option<&Failure> {
        match &self.topics.get(id.index())?.knowledge {
            Knowledge::Refused(failure) => Some(failure),
            Knowledge::Unknown | Knowledge::Known(_) => None,
        }
    }

    /// Whether to look `id` up now. If so, the next look-up waits for the answer, or until the
    /// answer is overdue.
    pub(crate) fn begin_look_up(&mut self, id: TopicId, at: Moment) -> bool {
        match self.topics.get_mut(id.index()) {
            // The topic is known; only the witness is waited for.
            Some(Topic { knowledge: Knowledge::Known(facts), recorded, .. })
                if !is_recorded(self.store, *recorded, facts) =>
            {
                false
            }
            Some(topic) if topic.look_up_at <= at => {
                topic.look_up_at = at + ANSWER_LIMIT;
                true
            }
            Some(_) | None => false,
        }
    }

    /// When the next look-up is due; `None` for a topic that is known.
    pub(crate) fn look_up_at(&self, id: TopicId) -> Option<Moment> {
        let topic = self.topics.get(id.index())?;
        match topic.knowledge {
            Knowledge::Known(_) => None,
            Knowledge::Unknown | Knowledge::Refused(_) => Some(topic.look_up_at),
        }
    }

    /// A look-up was answered.
    pub(crate) fn answer(&mut self, id: TopicId, answer: Result<TopicFacts, Failure>, at: Moment) {
        let Some(topic) = self.topics.get_mut(id.index()) else { return };
        match answer {
            Ok(facts) => {
                self.news = Unreported::Some;
                topic.knowledge = Knowledge::Known(facts);
                topic.look_up_at = at;
            }
            Err(failure) => {
                topic.knowledge = Knowledge::Refused(failure);
                topic.look_up_at = at + LOOK_UP_RETRY;
            }
        }
    }

    /// What is known of a topic that can be produced to now; `None` for every other.
    pub(crate) fn facts(&self, id: TopicId) -> Option<TopicFacts> {
        match self.readiness(id) {
            Readiness::Ready(facts) => Some(facts),
            Readiness::Pending | Readiness::Illegal => None,
        }
    }

    /// Whether what is known of a topic was answered before this moment.
    pub(crate) fn was_answered_before(&self, id: TopicId, at: Moment) -> bool {
        let known = self.topics.get(id.index());
        known.is_some_and(|topic| topic.knowledge.is_answer() && topic.look_up_at < at)
    }

    /// A topic does not exist any more, or may have changed: it is looked up before its next
    /// record.
    pub(crate) fn gone(&mut self, id: TopicId) {
        if let Some(topic) = self.topics.get_mut(id.index())
            && topic.knowledge.is_answer()
        {
            topic.knowledge = Knowledge::Unknown;
            topic.look_up_at = Moment::default();
        }
    }

    /// Forgets all answers and keeps the numbers: a new producer looks every topic up again.
    pub(crate) fn forget(&mut self) {
        for topic in &mut self.topics {
            topic.knowledge = Knowledge::Unknown;
            topic.look_up_at = Moment::default();
            topic.in_flight = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_interned_once() {
        let mut topics = Topics::default();
        let a = topics.intern(TopicName::new("a").unwrap()).unwrap();
        let b = topics.intern(TopicName::new("b").unwrap()).unwrap();
        assert_eq!(topics.intern(TopicName::new("a").unwrap()).unwrap(), a);
        assert_ne!(a, b);
    }

    #[test]
    fn a_refused_topic_is_looked_up_again_after_a_while_and_keeps_its_reason_meanwhile() {
        let mut topics = Topics::default();
        let id = topics.intern(TopicName::new("a").unwrap()).unwrap();
        let start = Moment::default();
        assert!(topics.begin_look_up(id, start));
        assert!(!topics.begin_look_up(id, start), "one look-up at a time");
        topics.answer(id, Err(Failure::new(Code::TopicMissing, "no topic a")), start);
        assert!(!topics.begin_look_up(id, start));
        let again = topics.look_up_at(id).unwrap();
        assert!(topics.begin_look_up(id, again));
        assert!(!topics.begin_look_up(id, again));
        assert!(topics.refusal(id).is_some());
        let facts = TopicFacts { partitions: NonZeroI32::new(3).unwrap(), max_message_bytes: None };
        topics.answer(id, Ok(facts), again);
        assert_eq!(topics.readiness(id), Readiness::Ready(facts));
    }

    #[test]
    fn a_look_up_whose_answer_never_comes_is_repeated() {
        let mut topics = Topics::default();
        let id = topics.intern(TopicName::new("a").unwrap()).unwrap();
        assert!(topics.begin_look_up(id, Moment::default()));
        let overdue = topics.look_up_at(id).unwrap();
        assert!(overdue > Moment::default());
        assert!(topics.begin_look_up(id, overdue));
    }
}
