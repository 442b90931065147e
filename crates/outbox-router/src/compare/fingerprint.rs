//! An expected record without its bytes, of an event that counts as missing. Its size does not
//! depend on the record, so a million can be kept, and the record is still compared if it comes.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;

use super::{
    difference::Difference,
    record::{Expected, ExpectedTime},
};
use crate::kafka::{PartitionId, StoredRecord};

/// The hashes of a record's parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fingerprint {
    pub(super) number: u64,
    partition: PartitionId,
    key: u64,
    value: u64,
    headers: u64,
    time: ExpectedTime,
}

impl Fingerprint {
    pub(super) fn of(number: u64, expected: &Expected, hasher: &RandomState) -> Self {
        Self {
            number,
            partition: expected.partition,
            key: hash(hasher, &Some(&expected.key)),
            value: hash(hasher, &expected.value.as_ref()),
            headers: hash(hasher, &expected.headers),
            time: expected.time,
        }
    }

    /// As [`differences`](super::difference::differences).
    pub(super) fn differences(
        &self,
        stored: &StoredRecord,
        hasher: &RandomState,
    ) -> Vec<Difference> {
        Difference::of_all(|part| match part {
            Difference::Topic => self.partition.topic != stored.partition.topic,
            Difference::Partition => self.partition.is_another_of_topic(stored.partition),
            Difference::Key => self.key != hash(hasher, &stored.key.as_ref()),
            Difference::Value => self.value != hash(hasher, &stored.value.as_ref()),
            Difference::Headers => self.headers != hash(hasher, &stored.headers),
            Difference::Timestamp => self.time.differs(stored.timestamp_ms),
        })
    }
}

fn hash(hasher: &RandomState, value: &impl Hash) -> u64 {
    hasher.hash_one(value)
}
