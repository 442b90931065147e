//! The topics that records go to, and which of their partitions know this producer.
//!
//! A broker that knows nothing of a producer in a partition takes whatever sequence number comes
//! first. So when the first batch that a producer sends to a partition is refused for a passing
//! reason, and the second, already on its way, is not, the second is in the log before the first.
//! From the first stored record on, the broker itself refuses what is out of sequence, for as long
//! as it keeps the partition. Hence the rule kept here: until a partition has stored one record of
//! this producer, it gets no second one. That costs one round trip for each partition in a
//! producer's life, and nothing after it.
//!
//! Brokers forget: a producer that has sent nothing to a partition for `producer.id.expiration.ms`
//! (a day, unless somebody changed it) is as new there as at first. So is, to us, a partition that
//! was not used for [`QUIET`].
//!
//! Topics that are deleted and made again know nobody: when a topic is looked up again after it was
//! gone, and when its id is another than when it was last seen, its partitions are new.

//!
//! # Topics that take small batches
//!
//! librdkafka has one `batch.size` for all topics, and a batch above a topic's `max.message.bytes`
//! is refused as a whole, although each of its records would fit. So of such a topic each partition
//! has no more on its way than fits one batch, whatever librdkafka makes of it: batches of other
//! topics stay as they are, nothing is made anew, and the limit follows the topic's own when that
//! is looked up again. A single record may always be tried, since the broker alone sees how small
//! it compresses. The price is paid by the records behind one that has to wait for its turn: a
//! topic whose limit is a few records takes a few records per round trip and partition.
//!
//! Not done instead: a smaller `batch.size` for all topics, which a new producer, the replay of
//! what was in flight and small batches everywhere would cost, until a restart; a second producer
//! for small topics, which would double connections, memory and every question of order; and
//! counting on what was sent already, which librdkafka does not tell (a batch that is tried again
//! is the same batch, but one that waits for its connection takes in what comes).

use std::{collections::HashMap, time::Duration};

use relay::{TopicId, TopicName};
use tokio::time::Instant;

use super::ffi::{TopicAddress, TopicHandle, TopicUuid};

/// Far below the time after which a broker forgets a producer, far above any pause in which a round
/// trip would count.
const QUIET: Duration = Duration::from_secs(3600);

/// The topics that were bound, by our number and by librdkafka's address.
pub(super) struct Topics {
    bound: Vec<Option<Bound>>,
    /// The largest batch that the producer makes.
    batch_bytes: usize,
    by_address: HashMap<TopicAddress, TopicId>,
    /// Reports come in batches of one partition: the next is nearly always of the topic of the
    /// last.
    last: Option<(TopicAddress, TopicId)>,
    opened: Instant,
    /// Since `opened`, as of the last [`Topics::tick`].
    now: Duration,
}

struct Bound {
    name: TopicName,
    handle: TopicHandle,
    /// Which of the topics that have had this name, once it was seen.
    uuid: Option<TopicUuid>,
    /// What a partition may have on its way: its `max.message.bytes` where that is less than a
    /// batch may hold.
    limit: u64,
    /// By number, as far as they were used.
    partitions: Vec<Partition>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Partition {
    standing: Standing,
    /// Bytes that were sent and not reported, as the tickets reckon.
    unacked: u64,
}

/// For topics that take any batch of this producer.
const UNLIMITED: u64 = u64::MAX;

impl Topics {
    pub(super) fn new(batch_bytes: usize) -> Self {
        Self {
            bound: Vec::new(),
            batch_bytes,
            by_address: HashMap::new(),
            last: None,
            opened: Instant::now(),
            now: Duration::ZERO,
        }
    }

    /// Looks at the clock, which is too much to ask for every record.
    pub(super) fn tick(&mut self) {
        self.now = self.opened.elapsed();
    }

    pub(super) fn insert(&mut self, id: TopicId, name: &TopicName, handle: TopicHandle) {
        if self.bound.len() <= id.index() {
            self.bound.resize_with(id.index() + 1, || None);
        }
        self.by_address.insert(handle.address(), id);
        if let Some(slot) = self.bound.get_mut(id.index()) {
            *slot = Some(Bound {
                name: name.clone(),
                handle,
                uuid: None,
                limit: UNLIMITED,
                partitions: Vec::new(),
            });
        }
    }

    pub(super) fn contains(&self, id: TopicId) -> bool {
        self.bound.get(id.index()).is_some_and(Option::is_some)
    }

    /// Takes over what was looked up, and forgets which partitions know this producer. Records that
    /// are still on their way are no matter: a partition that stores one of them knows the
    /// producer.
    pub(super) fn renew(&mut self, id: TopicId, max_message_bytes: Option<usize>) {
        let limit = max_message_bytes.filter(|limit| *limit < self.batch_bytes);
        if let Some(Some(bound)) = self.bound.get_mut(id.index()) {
            bound.limit = limit.and_then(|limit| limit.try_into().ok()).unwrap_or(UNLIMITED);
            bound.uuid = None;
            bound.forget_standings();
        }
    }

    /// Whether the topic takes smaller batches than the producer makes.
    pub(super) fn is_limited(&self, id: TopicId) -> bool {
        matches!(self.bound.get(id.index()), Some(Some(bound)) if bound.limit != UNLIMITED)
    }

    /// Takes note of the topic's id. It is another topic than before when it has another one.
    pub(super) fn identify(&mut self, id: TopicId, uuid: TopicUuid) -> Identity {
        let Some(Some(bound)) = self.bound.get_mut(id.index()) else { return Identity::Same };
        match bound.uuid.replace(uuid) {
            Some(former) if former != uuid => {
                bound.forget_standings();
                Identity::Another
            }
            _ => Identity::Same,
        }
    }

    pub(super) fn name(&self, id: TopicId) -> Option<&str> {
        self.bound.get(id.index())?.as_ref().map(|bound| bound.name.as_str())
    }

    /// Where a record goes; `None` for a topic that is not bound.
    #[inline]
    pub(super) fn place(&mut self, id: TopicId, partition: i32) -> Option<Place<'_>> {
        let Bound { handle, partitions, limit, .. } = self.bound.get_mut(id.index())?.as_mut()?;
        let partition = usize::try_from(partition).ok()?;
        if partition >= partitions.len() {
            partitions.resize(partition + 1, Partition::default());
        }
        let partition = partitions.get_mut(partition)?;
        Some(Place { topic: handle, limit: *limit, partition, now: self.now })
    }

    /// Which topic a report is about.
    #[inline]
    pub(super) fn find(&mut self, address: TopicAddress) -> Option<TopicId> {
        match self.last {
            Some((last, id)) if last == address => Some(id),
            _ => {
                let id = *self.by_address.get(&address)?;
                self.last = Some((address, id));
                Some(id)
            }
        }
    }

    /// The partition has stored a record of this producer, which held so many bytes.
    #[inline]
    pub(super) fn stored(&mut self, id: TopicId, partition: i32, bytes: u64) {
        if let Some(place) = self.place(id, partition) {
            place.partition.unacked = place.partition.unacked.saturating_sub(bytes);
            place.partition.standing.stored(place.now);
        }
    }
}

impl Bound {
    fn forget_standings(&mut self) {
        for partition in &mut self.partitions {
            partition.standing = Standing::New;
        }
    }
}

/// Whether a topic is the one that was seen under its name before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// As far as anybody can tell.
    Same,
    /// It was deleted and made again.
    Another,
}

/// One partition of a bound topic, for one record.
pub(super) struct Place<'t> {
    pub(super) topic: &'t TopicHandle,
    limit: u64,
    partition: &'t mut Partition,
    now: Duration,
}

impl Place<'_> {
    /// Whether the partition may be sent a record of so many bytes now.
    #[inline]
    pub(super) fn is_open(&self, bytes: u64) -> bool {
        let Partition { standing, unacked } = *self.partition;
        standing != Standing::Probed
            && (unacked == 0 || unacked.saturating_add(bytes) <= self.limit)
    }

    /// It was sent a record of so many bytes.
    #[inline]
    pub(super) fn sent(self, bytes: u64) {
        self.partition.standing.sent(self.now);
        self.partition.unacked += bytes;
    }
}

/// How a partition stands to this producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Standing {
    /// It may know nothing of the producer.
    #[default]
    New,
    /// Its one record is on its way.
    Probed,
    /// It holds the producer's sequence numbers.
    Proven { used: Duration },
}

impl Standing {
    #[inline]
    fn sent(&mut self, now: Duration) {
        *self = match *self {
            Self::Proven { used } if now.saturating_sub(used) < QUIET => Self::Proven { used: now },
            Self::New | Self::Probed | Self::Proven { .. } => Self::Probed,
        };
    }

    #[inline]
    fn stored(&mut self, now: Duration) {
        *self = Self::Proven { used: now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_nothing_was_sent_to_for_long_is_as_good_as_new() {
        let mut standing = Standing::New;
        standing.sent(Duration::ZERO);
        assert_eq!(standing, Standing::Probed);
        standing.stored(Duration::from_secs(1));
        for pause in [Duration::ZERO, QUIET / 2, QUIET / 2] {
            let Standing::Proven { used } = standing else { panic!("{standing:?}") };
            standing.sent(used + pause);
        }
        let Standing::Proven { used } = standing else { panic!("{standing:?}") };
        standing.sent(used + QUIET);
        assert_eq!(standing, Standing::Probed);
    }
}
