//! The state topic on the shell's side: read on a blocking thread, and not read again while nobody writes to it.

use relay::{Failure, StateRead, witness::StateRecord};

use crate::kafka::StateTopic;

/// What was read last, and where the topic ended then.
pub(super) struct StateCache {
    end: i64,
    read: StateRead,
}

/// Reads the records whose keys begin with `prefix`. The topic is read twice for each session, within milliseconds; the
/// second time it is mostly enough to ask where it ends.
///
/// # Errors
/// The topic is not as it must be, or nobody answers.
pub(super) fn read(
    topic: &StateTopic,
    prefix: &[u8],
    cache: Option<StateCache>,
) -> Result<(StateCache, StateRead), Failure> {
    if let Some(cache) = cache
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
    Ok((StateCache { end: found.end, read: read.clone() }, read))
}
