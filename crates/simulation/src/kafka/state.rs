//! The state topic: one compacted partition, of which a reader sees the latest record of each key.

use std::collections::BTreeMap;

use relay::{StateTopicRecord, Write, witness::Witness};

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct SimulatedStateTopic {
    records: BTreeMap<Vec<u8>, StateTopicRecord>,
    next_offset: i64,
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
    /// A write is stored.
    pub fn store(&mut self, write: &Write) {
        self.log.push(write.clone());
        let offset = self.next_offset;
        self.next_offset += 1;
        match &write.value {
            Some(value) => {
                let (key, value) = (write.key.clone(), value.clone());
                self.records.insert(key.clone(), StateTopicRecord { key, value, offset });
            }
            None => {
                self.records.remove(&write.key);
            }
        }
    }

    /// The records that a reader sees: the latest of each key.
    pub fn read(&self) -> Vec<StateTopicRecord> {
        self.records.values().cloned().collect()
    }

    /// The record that counts, by the product's rule, implemented a second time.
    pub fn best(&self) -> Option<Witness> {
        let mut all = self.all();
        let timeline = |one: &Witness| one.history.as_ref().map(|history| history.timeline);
        all.sort_by_key(|one| (one.generation, timeline(one), one.held, one.position));
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

    /// The witness in each record.
    pub fn all(&self) -> Vec<Witness> {
        let read = |record: &StateTopicRecord| Witness::decode(&record.value).expect("we wrote it");
        self.records.values().map(read).collect()
    }

    /// Deletes every record.
    pub fn clear(&mut self) {
        self.records.clear();
        self.log.clear();
        self.next_offset = 0;
    }

    /// Loses all but the first writes: a broker becomes the leader that has no more.
    pub fn keep(&mut self, writes: usize) {
        let mut kept = std::mem::take(&mut self.log);
        kept.truncate(writes);
        self.clear();
        kept.iter().for_each(|write| self.store(write));
    }

    /// How many writes there were since the topic was made.
    pub fn writes(&self) -> usize {
        self.log.len()
    }

    /// The key of the record that counts.
    pub fn best_key(&self) -> Option<Vec<u8>> {
        let best = self.best()?;
        let is_best = |record: &&StateTopicRecord| {
            let read = Witness::decode(&record.value).expect("we wrote it");
            (read.generation, read.held, read.position)
                == (best.generation, best.held, best.position)
        };
        self.records.values().find(is_best).map(|record| record.key.clone())
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
