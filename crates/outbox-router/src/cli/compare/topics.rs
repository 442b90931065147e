//! The topics of a comparison: which are read, from where, and how far each partition is ahead of
//! the WAL.

use std::{collections::HashMap, num::NonZeroI32, time::Duration};

use relay::{Code, Failure, TopicFacts, TopicName};

use crate::{
    cli::topic_lookups::{Topic, TopicLookups},
    compare::Comparison,
    config::Config,
    kafka::{PartitionId, Polled, StoredRecord, TopicReader},
    prepare,
};

/// See the module's header.
pub(super) struct ReadTopics {
    lookups: TopicLookups,
    reader: TopicReader,
    partitions: HashMap<PartitionId, PartitionRead>,
    counts: HashMap<TopicName, NonZeroI32>,
    /// Topics of `--topic` whose reading has not begun.
    named: Vec<TopicName>,
}

/// How a partition is read.
#[derive(Debug, Clone, Copy)]
struct PartitionRead {
    /// The offset after the last record that was taken.
    next: i64,
    state: ReadState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    Reading,
    /// Every record was taken that is there.
    AtEnd,
    /// It is ahead of the WAL, and not read for now.
    Paused,
}

impl ReadTopics {
    /// Makes the clients.
    ///
    /// # Errors
    /// librdkafka refuses the settings.
    pub(super) fn open(config: &Config) -> Result<Self, Failure> {
        let lookups = TopicLookups::open(config)?;
        let reader = TopicReader::open(&prepare::kafka_settings(config))?;
        let (partitions, counts) = (HashMap::new(), HashMap::new());
        Ok(Self { lookups, reader, partitions, counts, named: Vec::new() })
    }

    /// Adds a topic of `--topic`. Its reading begins with that of the first event's topic.
    ///
    /// # Errors
    /// It does not exist or may not be described, or no broker answers.
    pub(super) fn add_named(&mut self, topic: TopicName) -> Result<(), Failure> {
        match self.lookups.look_up(&topic)? {
            Topic::Exists(facts) => self.counts.insert(topic.clone(), facts.partitions),
            Topic::ToBeCreated(_) => {
                let what = format!("topic {topic} does not exist");
                return Err(Failure::new(Code::TopicMissing, what));
            }
            Topic::Unusable(failure) => return Err(failure),
        };
        self.named.push(topic);
        Ok(())
    }

    /// What a dry run has to know of a topic. That a topic does not exist is no failure: its events
    /// are missing.
    ///
    /// # Errors
    /// The topic may not be described, or no broker answers.
    pub(super) fn facts(&mut self, topic: &TopicName) -> Result<TopicFacts, Failure> {
        let found = self.lookups.look_up(topic)?;
        match &found {
            Topic::Exists(facts) => {
                self.counts.insert(topic.clone(), facts.partitions);
            }
            Topic::Unusable(failure) if failure.code != Code::TopicMissing => {
                return Err(failure.clone());
            }
            Topic::ToBeCreated(_) | Topic::Unusable(_) => {}
        }
        Ok(found.facts())
    }

    /// The number of a topic of an event. It is read from `millis` on if it was not read yet, and
    /// so are the topics that were named.
    ///
    /// # Errors
    /// The topic cannot be read, or no broker answers.
    pub(super) fn number(
        &mut self,
        topic: &TopicName,
        millis: i64,
        comparison: &mut Comparison,
    ) -> Result<usize, Failure> {
        for named in std::mem::take(&mut self.named) {
            self.begin(&named, millis, comparison)?;
        }
        self.begin(topic, millis, comparison)
    }

    fn begin(
        &mut self,
        topic: &TopicName,
        millis: i64,
        comparison: &mut Comparison,
    ) -> Result<usize, Failure> {
        if let Some(number) = self.reader.number(topic) {
            return Ok(number);
        }
        let begun = match self.counts.get(topic) {
            Some(count) => self.reader.read(topic, *count, millis)?,
            None => {
                self.reader.skip(topic)?;
                Vec::new()
            }
        };
        comparison.begin_topic(topic, begun.iter().map(|from| from.end));
        let number = self.reader.topics().len().saturating_sub(1);
        for (partition, from) in (0..).zip(begun) {
            let read = PartitionRead { next: from.offset, state: ReadState::Reading };
            self.partitions.insert(PartitionId { topic: number, partition }, read);
        }
        Ok(number)
    }

    /// Waits up to `limit` for a record and takes all that have arrived, at most `most`. Returns
    /// how many were taken.
    ///
    /// # Errors
    /// A topic was deleted, or may no longer be read.
    pub(super) fn poll(
        &mut self,
        limit: Duration,
        most: usize,
        comparison: &mut Comparison,
    ) -> Result<usize, Failure> {
        let mut taken = 0;
        let mut limit = limit;
        while taken < most
            && let Some(polled) = self.reader.poll(limit)?
        {
            limit = Duration::ZERO;
            match polled {
                Polled::Record(record) => {
                    taken += 1;
                    self.take(record, comparison)?;
                }
                Polled::End { partition, .. } => {
                    if let Some(read) = self.partitions.get_mut(&partition)
                        && read.state == ReadState::Reading
                    {
                        read.state = ReadState::AtEnd;
                    }
                }
            }
        }
        Ok(taken)
    }

    fn take(&mut self, record: StoredRecord, comparison: &mut Comparison) -> Result<(), Failure> {
        let partition = record.partition;
        let Some(read) = self.partitions.get_mut(&partition) else { return Ok(()) };
        // What was fetched before a pause comes again after it.
        if read.state == ReadState::Paused || record.offset < read.next {
            return Ok(());
        }
        *read = PartitionRead { next: record.offset + 1, state: ReadState::Reading };
        comparison.stored(record);
        if comparison.is_ahead(partition) {
            read.state = ReadState::Paused;
            self.reader.pause(partition)?;
        }
        Ok(())
    }

    /// Reads the partitions on that are not ahead any more.
    ///
    /// # Errors
    /// librdkafka refuses.
    pub(super) fn resume(&mut self, comparison: &Comparison) -> Result<(), Failure> {
        for (partition, read) in &mut self.partitions {
            if read.state == ReadState::Paused && !comparison.is_ahead(*partition) {
                read.state = ReadState::Reading;
                self.reader.resume(*partition, read.next)?;
            }
        }
        Ok(())
    }

    /// Where every partition ends now.
    ///
    /// # Errors
    /// No broker answers.
    pub(super) fn ends(&self) -> Result<HashMap<PartitionId, i64>, Failure> {
        let partitions = self.partitions.keys();
        partitions.map(|partition| Ok((*partition, self.reader.end(*partition)?))).collect()
    }

    /// Whether everything before these ends was taken.
    pub(super) fn have_reached(&self, ends: &HashMap<PartitionId, i64>) -> bool {
        ends.iter().all(|(partition, end)| {
            let read = self.partitions.get(partition);
            read.is_none_or(|read| read.state == ReadState::AtEnd || read.next >= *end)
        })
    }
}
