//! The state topic on the shell's side: read on a blocking thread, and not read again while nobody writes to it.

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

    /// Where the topic ends if nobody else has written to it. What was on its way when it was read is not counted, so a
    /// topic that ends elsewhere may still be untouched, and is read once more; never the other way round.
    pub(super) fn expected_end(&self) -> i64 {
        self.found.end + self.own
    }

    /// What speaks against the topic.
    pub(super) fn cautions(&self) -> &[Failure] {
        &self.cautions
    }

    /// What was found then, to read on from there.
    pub(super) fn found(&self) -> Arc<kafka::StateRead> {
        Arc::clone(&self.found)
    }
}

/// Reads the records whose keys begin with `prefix`. The topic is read twice for each session, within milliseconds; the
/// second time it is mostly enough to ask where it ends.
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
        && topic.end()? == cache.found.end
    {
        let read = records_of(&cache.found);
        return Ok((cache, read));
    }
    let cautions = topic.open()?;
    Ok(taken(topic.read(prefix)?, cautions))
}

/// The same while a session streams: others write to the topic, too, and only what is new is read.
///
/// # Errors
/// As [`read`].
pub(super) fn read_on(
    topic: &impl StateTopic,
    prefix: &[u8],
    known: &kafka::StateRead,
) -> Result<(StateCache, StateRead), Failure> {
    let cautions = topic.open()?;
    Ok(taken(topic.read_on(prefix, known)?, cautions))
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
