//! What a fault may cost: memory, and duplicates counted from one interruption to the next.

use std::collections::{BTreeMap, HashMap, HashSet};

use testbed::reader::ConsumedRecord;
use testbed::truth::Truth;

use crate::fixture::Fixture;

/// Resident memory stays below 40 MB and three windows, whatever happens; half of the former is
/// left to the program's own pages.
pub const fn memory_limit(window_bytes: u64) -> u64 {
    20 * 1_000_000 + 3 * window_bytes
}

/// Events of the largest transaction: what an interruption may repeat beside the window.
pub fn largest_transaction(truth: &Truth) -> usize {
    let mut sizes: HashMap<u32, usize> = HashMap::new();
    for event in &truth.events {
        *sizes.entry(event.xid).or_default() += 1;
    }
    sizes.into_values().max().unwrap_or_default()
}

/// Where each partition ended when something was interrupted.
#[derive(Debug, Default)]
pub struct Interruptions {
    ends: Vec<BTreeMap<(String, i32), i64>>,
}

impl Interruptions {
    /// Notes an interruption: the router must not be writing.
    ///
    /// # Errors
    ///
    /// Fails when Kafka cannot be reached.
    pub async fn note(&mut self, fixture: &Fixture) -> anyhow::Result<()> {
        let mut ends = BTreeMap::new();
        for topic in &fixture.topics {
            let offsets = fixture.kafka.end_offsets(topic).await?;
            ends.extend(
                (0..).zip(offsets).map(|(partition, end)| ((topic.clone(), partition), end)),
            );
        }
        self.ends.push(ends);
        Ok(())
    }

    /// Duplicates by when they were written: before the first interruption, after it, after the
    /// second, and so on.
    pub fn duplicates(&self, seen: &[ConsumedRecord]) -> Vec<usize> {
        let mut log: Vec<&ConsumedRecord> = seen.iter().collect();
        log.sort_by_key(|record| (record.partition, record.offset));
        let mut known = HashSet::new();
        let mut counts = vec![0; self.ends.len() + 1];
        for record in log {
            let is_first = record.header("id").is_none_or(|id| known.insert(id));
            if !is_first && let Some(count) = counts.get_mut(self.interruptions_before(record)) {
                *count += 1;
            }
        }
        counts
    }

    fn interruptions_before(&self, record: &ConsumedRecord) -> usize {
        let place = (record.topic.to_string(), record.partition);
        let before =
            |ends: &&BTreeMap<_, i64>| ends.get(&place).is_some_and(|end| *end <= record.offset);
        self.ends.iter().filter(before).count()
    }
}
