//! The state topic on the shell's side: read on a blocking thread, and not read again while nobody writes to it.

use relay::{Failure, StateRead, witness::StateRecord};

use super::ports::StateTopic;

/// What was read last, and where the topic ended then.
pub(super) struct StateCache {
    end: i64,
    read: StateRead,
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
        self.end + self.own
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
        && topic.end()? == cache.end
    {
        let read = cache.read.clone();
        return Ok((cache, read));
    }
    topic.open()?;
    let found = topic.read(prefix)?;
    let records = found.records.into_iter().map(|record| StateRecord {
        key: record.key,
        value: record.value,
        offset: record.offset,
    });
    let read = StateRead { cluster: found.cluster_id, records: records.collect() };
    Ok((StateCache { end: found.end, read: read.clone(), after: u64::MAX, own: 0 }, read))
}
