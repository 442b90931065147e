//! The state topic on the shell's side: read on a blocking thread, and not read again while nobody
//! writes to it.

use std::sync::Arc;

use relay::{Failure, StateRead, witness::StateRecord};

use super::ports::StateTopic;
use crate::kafka;

/// What was read last.
pub(super) struct StateCache {
    found: Arc<kafka::StateRead>,
    /// What speaks against the topic.
    cautions: Vec<Failure>,
    /// Our own write before it was read, or while it was.
    after: u64,
    /// Our own since then that were acknowledged.
    own: i64,
}

impl StateCache {
    /// The last of our own writes when the answer came. It may be in what was read, or not.
    pub(super) fn taken_after(mut self, write: u64) -> Self {
        self.after = write;
        self
    }

    /// One of our own writes was acknowledged: each takes one offset.
    pub(super) fn wrote(&mut self, write: u64) {
        self.own += i64::from(write > self.after);
    }

    /// What speaks against the topic.
    pub(super) fn cautions(&self) -> &[Failure] {
        &self.cautions
    }

    /// What would show that nobody else has written to the topic.
    pub(super) fn untouched(&self) -> Untouched {
        Untouched { found: Arc::clone(&self.found), own: self.own }
    }
}

/// What the topic is if nobody else has written to it.
pub(super) struct Untouched {
    found: Arc<kafka::StateRead>,
    own: i64,
}

/// Reads the records whose keys begin with `prefix`. The topic is read twice for each session,
/// within milliseconds; the second time, with what was found at the first, it is mostly enough to
/// ask where it ends.
///
/// # Errors
/// The topic is not as it must be, or nobody answers.
pub(super) fn read(
    topic: &impl StateTopic,
    prefix: &[u8],
    cache: Option<StateCache>,
) -> Result<(StateCache, StateRead), Failure> {
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

/// The same while a session streams: others write to the topic, too, and only what is new is read;
/// `None` where that is nothing. What was on its way when the topic was read last is not counted
/// among our own writes, so a topic that ends elsewhere may still be untouched, and is read once
/// more; never the other way round.
///
/// # Errors
/// As [`read`].
pub(super) fn look(
    topic: &impl StateTopic,
    prefix: &[u8],
    untouched: &Untouched,
) -> Result<Option<(StateCache, StateRead)>, Failure> {
    let Untouched { found, own } = untouched;
    if found.ends_at(&topic.end()?, *own) {
        return Ok(None);
    }
    let cautions = topic.open()?;
    Ok(Some(taken(topic.read_on(prefix, found)?, cautions)))
}

fn taken(found: kafka::StateRead, cautions: Vec<Failure>) -> (StateCache, StateRead) {
    let read = records_of(&found);
    (StateCache { found: Arc::new(found), cautions, after: u64::MAX, own: 0 }, read)
}

fn records_of(found: &kafka::StateRead) -> StateRead {
    let record = |record: &kafka::StateRecord| {
        let kafka::StateRecord { key, value, offset } = record.clone();
        StateRecord { key, value, offset }
    };
    let records = found.records.iter().map(record).collect();
    StateRead { cluster: found.cluster_id.clone(), records }
}
