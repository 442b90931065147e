//! Kafka: what is stored, and what is on its way there from producers that are gone.

use std::{collections::BTreeMap, time::Duration};

use relay::Moment;

use super::shape::TOPICS;

/// The longest that a record takes from a socket to the log. What takes longer is lost.
pub const ON_THE_WIRE: Duration = Duration::from_millis(200);

/// A partition of a topic, which is named by its place in the list of topics.
pub type Partition = (usize, i32);

/// A record, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentRecord {
    /// The row, from the header `id`.
    pub row: usize,
    /// The content of the row.
    pub content: u64,
    /// The process that produced it.
    pub process: u64,
    /// Whether the broker refuses it.
    pub is_refused: bool,
}

/// A record of a producer that is gone.
#[derive(Debug)]
pub struct StrayRecord {
    /// Where to.
    pub partition: Partition,
    /// The record.
    pub record: SentRecord,
    /// When it is lost, unless it was stored before.
    pub lost_at: Moment,
}

/// See the module's header.
#[derive(Debug, Default)]
pub struct PolledKafka {
    /// What is stored, in order.
    pub log: BTreeMap<Partition, Vec<SentRecord>>,
    /// In the order in which their producers sent them.
    pub strays: Vec<StrayRecord>,
    /// When it can be reached again; `None` while it can be.
    pub down_until: Option<Moment>,
    /// When each topic exists again; `None` while it does.
    pub missing_until: [Option<Moment>; TOPICS],
}

impl PolledKafka {
    /// Stores a record.
    pub fn store(&mut self, partition: Partition, record: SentRecord) {
        self.log.entry(partition).or_default().push(record);
    }

    /// Whether anything can be stored in a topic.
    pub fn takes(&self, topic: usize) -> bool {
        self.down_until.is_none() && self.missing_until[topic].is_none()
    }

    /// Removes one of the stray records: the first of its producer and partition.
    pub fn take_stray(&mut self, index: usize) -> Option<StrayRecord> {
        let StrayRecord { partition, record, .. } = self.strays.get(index)?;
        let (partition, process) = (*partition, record.process);
        let is_same =
            |stray: &StrayRecord| stray.partition == partition && stray.record.process == process;
        let first = self.strays.iter().position(is_same)?;
        Some(self.strays.remove(first))
    }

    /// Loses what takes too long.
    pub fn lose_strays(&mut self, now: Moment) {
        while let Some(late) = self.strays.iter().position(|stray| stray.lost_at <= now) {
            let lost = self.strays.remove(late);
            self.lose_behind(&lost);
        }
    }

    /// What was sent behind a record that is not stored is not stored either.
    pub fn lose_behind(&mut self, lost: &StrayRecord) {
        self.strays.retain(|stray| {
            stray.partition != lost.partition || stray.record.process != lost.record.process
        });
    }
}
