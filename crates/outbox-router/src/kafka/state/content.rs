//! The result of reading the state topic.

use std::hash::{DefaultHasher, Hash, Hasher};

use relay::StateTopicRecord;

use crate::kafka::ffi::FetchedRecord;

/// The records of the state topic, and the extent of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateLog {
    /// The cluster's id; empty where the brokers do not report one.
    pub cluster_id: String,
    /// The first offset of the topic at the time of the read.
    pub begin: i64,
    /// The offset after the last record at the time of the read.
    pub end: i64,
    /// The latest record of each key, in the order of the topic.
    pub records: Vec<StateTopicRecord>,
    /// The last record that was read, of any key, from where a later read may go on.
    pub last: Option<Anchor>,
}

/// The extent of the state topic, and the cluster that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateExtent {
    /// As in [`StateLog`], but from the producer's client.
    pub cluster_id: String,
    /// The first offset.
    pub begin: i64,
    /// The offset after the last record.
    pub end: i64,
}

impl StateLog {
    /// Whether the topic ends `further` records after this read, and begins where it began, in the
    /// same cluster. A beginning that has moved shows that records were deleted. The cluster is
    /// compared because a copy of the topic in another cluster may have the same offsets.
    pub fn has_extent(&self, now: &StateExtent, further: i64) -> bool {
        let (begin, end) = (self.begin, self.end + further);
        (now.begin, now.end) == (begin, end) && now.cluster_id == self.cluster_id
    }
}

/// Identifies one record of the log, to recognise the same log later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    pub(super) offset: i64,
    /// The hash of time, key and value.
    hash: u64,
}

impl Anchor {
    pub(super) fn of(record: &FetchedRecord) -> Self {
        let mut hasher = DefaultHasher::new();
        (record.timestamp_ms, &record.key, &record.value).hash(&mut hasher);
        Self { offset: record.offset, hash: hasher.finish() }
    }
}
