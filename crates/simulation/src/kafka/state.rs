//! The state topic: one compacted partition, of which a reader sees the latest record of each key.

use std::collections::BTreeMap;

use relay::witness::{StateRecord, Witness, Write};

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct StateTopic {
    records: BTreeMap<Vec<u8>, StateRecord>,
    next_offset: i64,
    /// Whether somebody has deleted it.
    pub is_deleted: bool,
    /// Whether its partition has no leader: it takes nothing, and nobody can read it.
    pub is_leaderless: bool,
    /// Writes that producers which are gone had sent already.
    pub ghosts: Vec<Write>,
}

impl StateTopic {
    /// A write is stored.
    pub fn store(&mut self, write: &Write) {
        let offset = self.next_offset;
        self.next_offset += 1;
        match &write.value {
            Some(value) => {
                let (key, value) = (write.key.clone(), value.clone());
                self.records.insert(key.clone(), StateRecord { key, value, offset });
            }
            None => {
                self.records.remove(&write.key);
            }
        }
    }

    /// What a reader sees.
    pub fn read(&self) -> Vec<StateRecord> {
        self.records.values().cloned().collect()
    }

    /// The record that counts: the product's rule, written a second time.
    pub fn best(&self) -> Option<Witness> {
        let all = self.all();
        let timeline = |one: &Witness| one.history.as_ref().map(|history| history.timeline);
        let rank = |one: &&Witness| (one.generation, timeline(one), one.held, one.position);
        let best = all.iter().max_by_key(rank)?;
        let mut best = best.clone();
        best.gaps.clear();
        for same in all.into_iter().filter(|one| one.generation == best.generation) {
            best.gaps.extend(same.gaps);
            for (topic, count) in same.partitions {
                let known = best.partitions.entry(topic).or_insert(count);
                *known = count.max(*known);
            }
            best.accepted.extend(same.accepted);
        }
        let Witness { generation, gaps, accepted, .. } = &mut best;
        gaps.retain(|gap| {
            !accepted.iter().any(|one| one.generation == *generation && one.name() == gap.name())
        });
        Some(best)
    }

    /// What each record says.
    pub fn all(&self) -> Vec<Witness> {
        let read = |record: &StateRecord| Witness::decode(&record.value).expect("we wrote it");
        self.records.values().map(read).collect()
    }

    /// Everything in it is lost.
    pub fn clear(&mut self) {
        self.records.clear();
        self.next_offset = 0;
    }

    /// It is not there any more.
    pub fn delete(&mut self) {
        self.clear();
        self.is_deleted = true;
    }
}
