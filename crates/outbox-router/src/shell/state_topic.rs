//! Reads the state topic for the shell, on a blocking thread, and avoids reading it again while no
//! other process writes to it and no record is deleted from it.

use std::{sync::Arc, time::Duration};

use relay::{Code, Failure, StateTopicRead};
use tokio::time::Instant;

use super::ports::StateTopic;
use crate::kafka;

/// How often the settings of the topic are checked while a session streams: a policy that deletes
/// records by age is to be noticed before it deletes the witness.
const OPEN_INTERVAL: Duration = Duration::from_secs(30);

/// The result of the last read.
pub(super) struct StateTopicCache {
    found: Arc<kafka::StateLog>,
    /// Cautions about the topic from the last read.
    cautions: Vec<Failure>,
    /// The number of this process's last write when the result arrived.
    after: u64,
    /// How many later writes of this process were acknowledged.
    own: i64,
    /// When the settings of the topic were checked last.
    opened_at: Instant,
}

impl StateTopicCache {
    /// Sets the number of this process's last write when the result arrived. That write may be in
    /// the result, or not.
    pub(super) fn taken_after(mut self, write: u64) -> Self {
        self.after = write;
        self
    }

    /// A write of this process was acknowledged. Each takes one offset.
    pub(super) fn wrote(&mut self, write: u64) {
        self.own += i64::from(write > self.after);
    }

    /// What speaks against the topic.
    pub(super) fn cautions(&self) -> &[Failure] {
        &self.cautions
    }

    /// What the topic is compared with, to see whether another process has written to it. Settings
    /// that are due count as checked.
    pub(super) fn next_check(&mut self) -> LastRead {
        let is_open_due = self.opened_at.elapsed() >= OPEN_INTERVAL;
        if is_open_due {
            self.opened_at = Instant::now();
        }
        LastRead { found: Arc::clone(&self.found), own: self.own, is_open_due }
    }
}

/// What was read, how many writes of this process followed, and whether the settings of the topic
/// are to be checked, too.
pub(super) struct LastRead {
    found: Arc<kafka::StateLog>,
    own: i64,
    is_open_due: bool,
}

/// Reads the records whose keys begin with `prefix`. The topic is read twice for each session,
/// within milliseconds. The second time, `cache` is the result of the first, and mostly it is
/// enough to ask where the topic ends.
///
/// # Errors
/// The topic is missing, forbidden or unsuitable, or Kafka does not answer.
pub(super) fn read(
    topic: &impl StateTopic,
    prefix: &[u8],
    cache: Option<StateTopicCache>,
) -> Result<(StateTopicCache, StateTopicRead), Failure> {
    if let Some(cache) = cache
        && cache.own == 0
        && cache.found.has_extent(&topic.extent()?, 0)
    {
        let read = records_of(&cache.found);
        return Ok((cache, read));
    }
    let cautions = topic.open()?;
    Ok(taken(topic.read(prefix)?, cautions))
}

/// The same while a session streams: reads only what is new, and returns `None` where no other
/// process has written. A write in flight during the last read is not counted as this process's
/// own. So an untouched topic may seem changed and is read once more, but a changed topic never
/// seems untouched. In another cluster, a topic that is missing counts as an empty one.
///
/// # Errors
/// As [`read`].
pub(super) fn read_changed(
    topic: &impl StateTopic,
    prefix: &[u8],
    last_read: &LastRead,
) -> Result<Option<(StateTopicCache, StateTopicRead)>, Failure> {
    let LastRead { found, own, is_open_due } = last_read;
    match topic.extent() {
        Ok(extent) if found.has_extent(&extent, *own) => {
            if *is_open_due {
                topic.open()?;
            }
            return Ok(None);
        }
        Ok(_) => {}
        // Where this is another cluster, waiting for the topic would hide that until somebody makes
        // it. It is not made here: a write that is under way would be acknowledged there.
        Err(failure) if failure.code == Code::TopicMissing => {
            let cluster_id = topic.cluster_id()?;
            if cluster_id.is_empty() || cluster_id == found.cluster_id {
                return Err(failure);
            }
            let (records, last) = (Vec::new(), None);
            let found = kafka::StateLog { cluster_id, begin: 0, end: 0, records, last };
            return Ok(Some(taken(found, Vec::new())));
        }
        Err(failure) => return Err(failure),
    }
    let cautions = topic.open()?;
    Ok(Some(taken(topic.read_on(prefix, found)?, cautions)))
}

fn taken(found: kafka::StateLog, cautions: Vec<Failure>) -> (StateTopicCache, StateTopicRead) {
    let read = records_of(&found);
    let (found, opened_at) = (Arc::new(found), Instant::now());
    (StateTopicCache { found, cautions, after: u64::MAX, own: 0, opened_at }, read)
}

fn records_of(found: &kafka::StateLog) -> StateTopicRead {
    StateTopicRead { cluster: found.cluster_id.clone(), records: found.records.clone() }
}
