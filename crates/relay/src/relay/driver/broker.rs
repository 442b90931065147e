//! The log of every partition, judged record by record as it grows.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroI32,
};

use super::server::Server;
use crate::{partition_for_key, testing::StoredRecord};

pub(super) const PARTITIONS: i32 = 3;

/// The number of the event that a record carries.
pub(super) fn number(record: &StoredRecord) -> usize {
    std::str::from_utf8(record.value.as_deref().unwrap()).unwrap().parse().unwrap()
}

#[derive(Default)]
pub(super) struct Broker {
    /// Numbers of the events that are in the log.
    log: BTreeSet<usize>,
    keys: BTreeMap<(String, String), KeyLog>,
    pub(super) duplicates: u64,
    pub(super) stored: u64,
}

/// What the log has of one key.
#[derive(Default)]
struct KeyLog {
    /// Distinct events.
    distinct: u64,
    /// Place of the last record.
    last: Option<u64>,
    /// How often it went back.
    returns: u64,
}

impl Broker {
    pub(super) fn has(&self, number: usize) -> bool {
        self.log.contains(&number)
    }

    /// A record is appended; `restarts` is how often something was interrupted so far.
    pub(super) fn store(
        &mut self,
        topic: &str,
        record: &StoredRecord,
        server: &Server,
        restarts: u64,
    ) {
        let number = number(record);
        let event = server.events.get(number).expect("an event that was committed");
        assert_eq!((topic, record.key.as_slice()), (event.topic.as_str(), event.key.as_bytes()));
        let partitions = NonZeroI32::new(PARTITIONS).unwrap();
        assert_eq!(record.partition, partition_for_key(&record.key, partitions));
        self.stored += 1;
        let key = self.keys.entry((event.topic.clone(), event.key.clone())).or_default();
        if self.log.insert(number) {
            assert_eq!(event.place, key.distinct, "first occurrences of a key are its sequence");
            key.distinct += 1;
        } else {
            self.duplicates += 1;
        }
        let goes_on = key.last.map_or(0, |last| last + 1);
        if event.place != goes_on {
            assert!(event.place < goes_on, "event {number} skips others of its key");
            key.returns += 1;
            assert!(key.returns <= restarts, "event {number} comes again without a reason");
        }
        key.last = Some(event.place);
    }
}
