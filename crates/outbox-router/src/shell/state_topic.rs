//! Reads the state topic for the shell, on a blocking thread, and avoids reading it again while no
//! other process writes to it.

use std::sync::Arc;

use relay::{Code, Failure, StateTopicRead};

use super::ports::StateTopic;
use crate::kafka;

/// The result of the last read.
pub(super) struct StateTopicCache {
    found: Arc<kafka::StateLog>,
    /// Cautions about the topic from the last read.
    cautions: Vec<Failure>,
    /// The number of this process's last write when the result arrived.
    after: u64,
    /// How many later writes of this process were acknowledged.
    own: i64,
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

    /// What the topic is compared with, to see whether another process has written to it.
    pub(super) fn last_read(&self) -> LastRead {
        LastRead { found: Arc::clone(&self.found), own: self.own }
    }
}

/// What was read, and how many writes of this process followed.
pub(super) struct LastRead {
    found: Arc<kafka::StateLog>,
    own: i64,
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
        && cache.found.ends_at(&topic.end()?, 0)
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
    let LastRead { found, own } = last_read;
    match topic.end() {
        Ok(end) if found.ends_at(&end, *own) => return Ok(None),
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
    (StateTopicCache { found: Arc::new(found), cautions, after: u64::MAX, own: 0 }, read)
}

fn records_of(found: &kafka::StateLog) -> StateTopicRead {
    StateTopicRead { cluster: found.cluster_id.clone(), records: found.records.clone() }
}
