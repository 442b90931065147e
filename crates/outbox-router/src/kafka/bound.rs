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

use std::{collections::HashMap, time::Duration};

use relay::{TopicId, TopicName};
use tokio::time::Instant;

use super::ffi::{TopicAddress, TopicHandle, TopicUuid};

/// Far below the time after which a broker forgets a producer, far above any pause in which a round trip would count.
const QUIET: Duration = Duration::from_secs(3600);

/// The topics that were bound, by our number and by librdkafka's address.
pub(super) struct Topics {
    bound: Vec<Option<Bound>>,
    by_address: HashMap<TopicAddress, TopicId>,
    /// Reports come in batches of one partition: the next is nearly always of the topic of the last.
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
    /// By number, as far as they were used.
    partitions: Vec<Standing>,
}

impl Topics {
    pub(super) fn new() -> Self {
        Self {
            bound: Vec::new(),
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
            *slot = Some(Bound { name: name.clone(), handle, uuid: None, partitions: Vec::new() });
        }
    }

    pub(super) fn contains(&self, id: TopicId) -> bool {
        self.bound.get(id.index()).is_some_and(Option::is_some)
    }

    /// Forgets which partitions know this producer. Records of these that are still on their way
    /// are no matter: a partition that stores one of them knows the producer.
    pub(super) fn renew(&mut self, id: TopicId) {
        if let Some(Some(bound)) = self.bound.get_mut(id.index()) {
            bound.partitions.clear();
            bound.uuid = None;
        }
    }

    /// Takes note of the topic's id. It is another topic than before when it has another one.
    pub(super) fn identify(&mut self, id: TopicId, uuid: TopicUuid) -> Identity {
        let Some(Some(bound)) = self.bound.get_mut(id.index()) else { return Identity::Same };
        match bound.uuid.replace(uuid) {
            Some(former) if former != uuid => {
                bound.partitions.clear();
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
        let Bound { handle, partitions, .. } = self.bound.get_mut(id.index())?.as_mut()?;
        let partition = usize::try_from(partition).ok()?;
        if partition >= partitions.len() {
            partitions.resize(partition + 1, Standing::New);
        }
        Some(Place { topic: handle, standing: partitions.get_mut(partition)?, now: self.now })
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

    /// The partition has stored a record of this producer.
    #[inline]
    pub(super) fn stored(&mut self, id: TopicId, partition: i32) {
        if let Some(place) = self.place(id, partition) {
            place.standing.stored(place.now);
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
    standing: &'t mut Standing,
    now: Duration,
}

impl Place<'_> {
    /// Whether the partition may be sent a record now.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        *self.standing != Standing::Probed
    }

    /// It was sent a record.
    #[inline]
    pub(super) fn sent(self) {
        self.standing.sent(self.now);
    }
}

/// How a partition stands to this producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It may know nothing of the producer.
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
