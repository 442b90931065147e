//! Where the records of a command were stored. A broker whose disk is put back to an earlier copy
//! knows no producer that came later, takes any sequence number from it, and gives offsets again.
//! The router finds that by its records in the state topic; a command writes none until its end, so
//! it compares the offsets themselves.

use std::{collections::BTreeMap, num::NonZeroI32};

use relay::{Case, Failure, TopicName};

use super::{settings::KafkaSettings, topic_reader::TopicReader};

/// By topic and partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredOffsets {
    topics: BTreeMap<TopicName, BTreeMap<i32, Span>>,
}

/// The first record's offset, and the last one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: i64,
    last: i64,
}

impl StoredOffsets {
    /// Adds a record that was acknowledged.
    ///
    /// # Errors
    /// As [`Self::follow`].
    pub(super) fn add(
        &mut self,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) -> Result<(), Failure> {
        let span = Span { first: offset, last: offset };
        // A clone for the first record of a topic alone.
        match self.topics.get_mut(topic) {
            Some(partitions) => insert(partitions, topic, partition, span),
            None => {
                let partitions = self.topics.entry(topic.clone()).or_default();
                insert(partitions, topic, partition, span)
            }
        }
    }

    /// Adds the records of a partition that were read, up to its end.
    ///
    /// # Errors
    /// As [`Self::follow`].
    pub fn read_to(&mut self, topic: &TopicName, partition: i32, end: i64) -> Result<(), Failure> {
        if end == 0 { Ok(()) } else { self.add(topic, partition, end - 1) }
    }

    /// Adds those of the next producer.
    ///
    /// # Errors
    /// [`Case::KafkaTakenBack`]: an offset was given that is not behind the former ones.
    pub fn follow(&mut self, next: Self) -> Result<(), Failure> {
        for (topic, partitions) in next.topics {
            let known = self.topics.entry(topic.clone()).or_default();
            for (partition, span) in partitions {
                insert(known, &topic, partition, span)?;
            }
        }
        Ok(())
    }

    /// Checks that Kafka's partitions end behind all of them. Blocks.
    ///
    /// # Errors
    /// [`Case::KafkaTakenBack`]: one ends before; or no broker answers.
    pub fn check_kept(&self, settings: &KafkaSettings) -> Result<(), Failure> {
        if self.topics.is_empty() {
            return Ok(());
        }
        let reader = TopicReader::open_for_offsets(settings)?;
        for (topic, partitions) in &self.topics {
            let greatest = partitions.keys().next_back().copied().unwrap_or(0);
            let count = NonZeroI32::new(greatest.saturating_add(1)).unwrap_or(NonZeroI32::MIN);
            for (partition, extent) in (0..).zip(reader.extents(topic, count, 0)?) {
                let known = partitions.get(&partition);
                if let Some(span) = known.filter(|span| span.last >= extent.end) {
                    let what = format!("partition {partition} ends at {}", extent.end);
                    return Err(taken_back(topic, &what, span.last));
                }
            }
        }
        Ok(())
    }
}

fn insert(
    partitions: &mut BTreeMap<i32, Span>,
    topic: &TopicName,
    partition: i32,
    span: Span,
) -> Result<(), Failure> {
    let known = partitions.entry(partition).or_insert(Span { last: span.first - 1, ..span });
    if span.first <= known.last {
        let what = format!("a record was stored at {} in partition {partition}", span.first);
        return Err(taken_back(topic, &what, known.last));
    }
    known.last = span.last;
    Ok(())
}

fn taken_back(topic: &TopicName, what: &str, last: i64) -> Failure {
    let what = format!(
        "topic {topic}: {what}, and a record of this run was acknowledged at {last} before: Kafka \
         was taken back to an earlier state meanwhile, and what this run has sent may be gone"
    );
    Failure::of(Case::KafkaTakenBack, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(offsets: &[i64]) -> Result<StoredOffsets, Failure> {
        let topic = TopicName::new("t").unwrap();
        let mut stored = StoredOffsets::default();
        offsets.iter().try_for_each(|offset| stored.add(&topic, 3, *offset))?;
        Ok(stored)
    }

    #[test]
    fn an_offset_that_is_given_again_shows_that_kafka_was_taken_back() {
        assert!(stored(&[0, 1, 5]).is_ok(), "others have written, too");
        for given_again in [&[7, 7][..], &[7, 3]] {
            let failure = stored(given_again).unwrap_err();
            assert_eq!(failure.case, Some(Case::KafkaTakenBack));
        }
        let mut former = stored(&[4, 7]).unwrap();
        assert_eq!(former.follow(stored(&[8, 9]).unwrap()), Ok(()));
        assert_eq!(former, stored(&[4, 9]).unwrap());
        assert!(former.follow(stored(&[9, 12]).unwrap()).is_err(), "by another producer");
        let topic = TopicName::new("t").unwrap();
        assert!(former.read_to(&topic, 3, 10).is_err(), "its end was read");
        assert_eq!(former.read_to(&topic, 3, 20), Ok(()));
        assert!(former.follow(stored(&[19]).unwrap()).is_err());
    }
}
