//! The topics of a comparison: which are read, from where, and how far each partition is ahead of
//! the WAL.

use std::{collections::HashMap, num::NonZeroI32, time::Duration};

use relay::{Code, Failure, TopicFacts, TopicName};

use crate::{
    compare::Comparison,
    kafka::{KafkaSettings, PartitionId, Polled, StoredRecord, TopicReader},
};

/// See the module's header.
pub(super) struct Topics {
    reader: TopicReader,
    partitions: HashMap<PartitionId, Flow>,
    counts: HashMap<TopicName, NonZeroI32>,
}

/// How a partition is read.
#[derive(Debug, Clone, Copy)]
struct Flow {
    /// The offset after the last record that was taken.
    next: i64,
    state: FlowState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlowState {
    Reading,
    /// Every record was taken that is there.
    AtEnd,
    /// It is ahead of the WAL, and not read for now.
    Stopped,
}

/// The partition count that is assumed of a topic that does not exist: its events are missing.
const OF_MISSING: NonZeroI32 = NonZeroI32::MIN;

impl Topics {
    pub(super) fn open(settings: &KafkaSettings) -> Result<Self, Failure> {
        let reader = TopicReader::open(settings)?;
        Ok(Self { reader, partitions: HashMap::new(), counts: HashMap::new() })
    }

    /// What a dry run has to know of a topic. A topic that does not exist has one partition: that
    /// its records are missing is a finding, not a failure.
    pub(super) fn facts(&mut self, topic: &TopicName) -> Result<TopicFacts, Failure> {
        let partitions = match self.reader.partitions(topic) {
            Ok(partitions) => {
                self.counts.insert(topic.clone(), partitions);
                partitions
            }
            Err(failure) if failure.code == Code::TopicMissing => OF_MISSING,
            Err(failure) => return Err(failure),
        };
        Ok(TopicFacts { partitions, max_message_bytes: None })
    }

    /// The number of a topic, which is read from `millis` on if it was not read yet.
    pub(super) fn number(
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
            let flow = Flow { next: from.offset, state: FlowState::Reading };
            self.partitions.insert(PartitionId { topic: number, partition }, flow);
        }
        Ok(number)
    }

    /// Waits up to `limit` for a record and takes all that have arrived, at most `most`. Returns how
    /// many were taken.
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
                Polled::End(partition) => {
                    if let Some(flow) = self.partitions.get_mut(&partition)
                        && flow.state == FlowState::Reading
                    {
                        flow.state = FlowState::AtEnd;
                    }
                }
            }
        }
        Ok(taken)
    }

    fn take(&mut self, record: StoredRecord, comparison: &mut Comparison) -> Result<(), Failure> {
        let partition = record.partition;
        let Some(flow) = self.partitions.get_mut(&partition) else { return Ok(()) };
        // What was fetched before a stop comes again after it.
        if flow.state == FlowState::Stopped || record.offset < flow.next {
            return Ok(());
        }
        *flow = Flow { next: record.offset + 1, state: FlowState::Reading };
        comparison.stored(record);
        if comparison.is_ahead(partition) {
            flow.state = FlowState::Stopped;
            self.reader.stop(partition)?;
        }
        Ok(())
    }

    /// Reads the partitions on that are not ahead any more.
    pub(super) fn resume(&mut self, comparison: &Comparison) -> Result<(), Failure> {
        for (partition, flow) in &mut self.partitions {
            if flow.state == FlowState::Stopped && !comparison.is_ahead(*partition) {
                flow.state = FlowState::Reading;
                self.reader.resume(*partition, flow.next)?;
            }
        }
        Ok(())
    }

    /// Where every partition ends now.
    pub(super) fn ends(&self) -> Result<HashMap<PartitionId, i64>, Failure> {
        let partitions = self.partitions.keys();
        partitions.map(|partition| Ok((*partition, self.reader.end(*partition)?))).collect()
    }

    /// Whether everything before these ends was taken.
    pub(super) fn have_reached(&self, ends: &HashMap<PartitionId, i64>) -> bool {
        ends.iter().all(|(partition, end)| {
            let flow = self.partitions.get(partition);
            flow.is_none_or(|flow| flow.state == FlowState::AtEnd || flow.next >= *end)
        })
    }
}
