//! What is known of the state topic once it was read.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::kafka::ffi::FetchedRecord;

/// What the state topic holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRead {
    /// The id that the cluster gave itself; empty where the brokers do not tell any.
    pub cluster_id: String,
    /// The first offset that the topic had then.
    pub begin: i64,
    /// The offset after the last record at the time of the call.
    pub end: i64,
    /// The latest record of each key, in the order of the topic.
    pub records: Vec<StateRecord>,
    /// The last record that was read, of whatever key: to read on from there.
    pub last: Option<Anchor>,
}

/// Where the state topic ends, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateEnd {
    /// As in [`StateRead`], by the producer's client.
    pub cluster_id: String,
    /// The offset after the last record.
    pub offset: i64,
}

impl StateRead {
    /// Whether the topic still ends where it did, in the same cluster. A copy of the topic in
    /// another cluster may have the same offsets.
    pub fn ends_at(&self, end: &StateEnd, further: i64) -> bool {
        end.offset == self.end + further && end.cluster_id == self.cluster_id
    }
}

/// The latest record of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRecord {
    /// As written.
    pub key: Vec<u8>,
    /// As written.
    pub value: Vec<u8>,
    /// Where in the topic.
    pub offset: i64,
}

/// One record, whoever wrote it, by which a log is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    pub(super) offset: i64,
    /// Of time, key and value.
    hash: u64,
}

impl Anchor {
    pub(super) fn of(record: &FetchedRecord) -> Self {
        let mut hasher = DefaultHasher::new();
        (record.timestamp_ms, &record.key, &record.value).hash(&mut hasher);
        Self { offset: record.offset, hash: hasher.finish() }
    }
}
