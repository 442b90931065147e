//! Counters by topic. A topic comes from a row's columns, so there may be as many as the data has
//! values: the first hundred have counters of their own, and the others are summed up (I6). Every
//! report copies all counters, and each topic is 22 time series in Prometheus.

use crate::{
    routing::{record::TopicId, topic::TopicName},
    telemetry::{Latencies, OtherTopics, TopicTotals},
};

/// How many topics are counted one by one.
pub const TOPICS_COUNTED: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct TopicCounters {
    /// Events and latencies, in the order of the topics' numbers.
    own: Vec<(u64, Latencies)>,
    other: (u64, Latencies),
    /// The greatest number of a topic, and one more.
    topics: usize,
}

impl TopicCounters {
    /// Counts acknowledged records, with the time since their commit where it is known.
    pub(crate) fn count(&mut self, topic: TopicId, records: u32, micros: Option<i64>) {
        let index = topic.index();
        self.topics = self.topics.max(index + 1);
        if index < TOPICS_COUNTED && self.own.len() <= index {
            self.own.resize_with(index + 1, Default::default);
        }
        let (acked, latencies) = self.own.get_mut(index).unwrap_or(&mut self.other);
        *acked += u64::from(records);
        if let Some(micros) = micros {
            latencies.count(micros, records);
        }
    }

    /// The counters of the first topics, by the names of all.
    pub(crate) fn own<'n>(&self, names: impl Iterator<Item = &'n TopicName>) -> Vec<TopicTotals> {
        let totals = |(name, (acked, latencies)): (&TopicName, &(u64, Latencies))| TopicTotals {
            name: name.clone(),
            acked: *acked,
            latencies: latencies.clone(),
        };
        names.zip(&self.own).map(totals).collect()
    }

    /// The sum of the others.
    pub(crate) fn other(&self) -> OtherTopics {
        let topics = self.topics.saturating_sub(TOPICS_COUNTED);
        let (acked, latencies) = self.other.clone();
        OtherTopics { topics: u64::try_from(topics).unwrap_or(u64::MAX), acked, latencies }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::topics::Topics;

    /// I6: a million names in the data. The registry takes 65,536 of them and refuses the rest
    /// (R011), and the counters of those grow no further than a hundred.
    #[test]
    fn a_million_names_of_topics_leave_a_hundred_counters_and_a_sum() {
        let (mut topics, mut counters) = (Topics::default(), TopicCounters::default());
        let (mut taken, mut refused) = (0, 0);
        for number in 0..1_000_000 {
            match topics.intern(TopicName::new(&format!("t{number}")).unwrap()) {
                Ok(id) => {
                    counters.count(id, 2, Some(1_500));
                    taken += 1;
                }
                Err(_) => refused += 1,
            }
            assert!(counters.own.len() <= TOPICS_COUNTED && counters.own.capacity() <= 128);
        }
        assert_eq!((taken, refused), (65_536, 1_000_000 - 65_536));
        let own = counters.own(topics.names());
        assert_eq!((own.len(), own[99].name.as_str(), own[99].acked), (100, "t99", 2));
        let other = counters.other();
        assert_eq!((other.topics, other.acked), (65_436, 130_872), "nothing is lost");
        assert_eq!((other.latencies.buckets[1], other.latencies.events()), (130_872, 130_872));
    }
}
