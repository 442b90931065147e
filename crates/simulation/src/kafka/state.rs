//! The state topic: one compacted partition, of which a reader sees the latest record of each key.

use std::collections::BTreeMap;

use relay::{StateTopicRecord, Write, witness::Witness};

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct SimulatedStateTopic {
    records: BTreeMap<Vec<u8>, StateTopicRecord>,
    /// Whether the topic is deleted.
    pub is_deleted: bool,
    /// Whether its partition has no leader: it can be neither written nor read.
    pub is_leaderless: bool,
    /// Writes that producers had sent before they were closed.
    pub late_writes: Vec<Write>,
    /// Every write since the topic was made.
    log: Vec<Write>,
}

impl SimulatedStateTopic {
    /// A write is stored. Returns its offset.
    pub fn store(&mut self, write: &Write) -> i64 {
        let offset = i64::try_from(self.log.len()).expect("small");
        self.log.push(write.clone());
        match &write.value {
            Some(value) => {
                let (key, value) = (write.key.clone(), value.clone());
                self.records.insert(key.clone(), StateTopicRecord { key, value, offset });
            }
            None => {
                self.records.remove(&write.key);
            }
        }
        offset
    }

    /// The records that a reader sees: the latest of each key.
    pub fn read(&self) -> Vec<StateTopicRecord> {
        self.records.values().cloned().collect()
    }

    /// The record that counts, by the product's rule, implemented a second time.
    pub fn best(&self) -> Option<Witness> {
        let mut all = self.all();
        let mut best = all.pop()?;
        // The later holder first: its partition counts stay.
        for same in all.into_iter().rev().filter(|one| one.generation == best.generation) {
            best.gaps.extend(same.gaps);
            for (topic, count) in same.partitions {
                best.partitions.entry(topic).or_insert(count);
            }
            best.accepted.extend(same.accepted);
        }
        let Witness { generation, gaps, accepted, .. } = &mut best;
        gaps.retain(|gap| {
            !accepted.iter().any(|one| one.generation == *generation && one.name() == gap.name())
        });
        Some(best)
    }

    /// The witness in each record, the one that counts last.
    pub fn all(&self) -> Vec<Witness> {
        self.ranked().into_iter().map(|(_, witness)| witness).collect()
    }

    /// The same with the keys.
    fn ranked(&self) -> Vec<(&[u8], Witness)> {
        let read = |(key, record): (_, &StateTopicRecord)| {
            let key: &Vec<u8> = key;
            (key.as_slice(), Witness::decode(&record.value).expect("we wrote it"))
        };
        let mut all: Vec<_> = self.records.iter().map(read).collect();
        let timeline = |one: &Witness| one.history.as_ref().map(|history| history.timeline);
        all.sort_by_key(|(_, one)| (one.generation, timeline(one), one.held, one.position));
        all
    }

    /// Deletes every record.
    pub fn clear(&mut self) {
        self.records.clear();
        self.log.clear();
    }

    /// Loses all but the first writes: a broker becomes the leader that has no more.
    pub fn keep(&mut self, writes: usize) {
        let mut kept = std::mem::take(&mut self.log);
        kept.truncate(writes);
        self.clear();
        for write in &kept {
            self.store(write);
        }
    }

    /// How many writes there were since the topic was made.
    pub fn writes(&self) -> usize {
        self.log.len()
    }

    /// The key of the record that counts.
    pub fn best_key(&self) -> Option<Vec<u8>> {
        self.ranked().pop().map(|(key, _)| key.to_vec())
    }

    /// Whether there is a record under this key.
    pub fn has(&self, key: &[u8]) -> bool {
        self.records.contains_key(key)
    }

    /// Deletes the topic.
    pub fn delete(&mut self) {
        self.clear();
        self.is_deleted = true;
    }
}
