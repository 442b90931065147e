//! The topics that records go to, and which of their partitions hold this producer's sequence
//! numbers.
//!
//! A broker that holds no state of a producer for a partition accepts any first sequence number. So
//! when the first batch that a producer sends to a partition is refused for a transient reason, and
//! the second, already in flight, is accepted, the second is in the log before the first. Once a
//! record is stored, the broker itself refuses what is out of sequence, for as long as it keeps the
//! partition. Hence the rule of this module: until a partition has stored one record of this
//! producer, it is sent no second one. That costs each partition one round trip in a producer's
//! life.
//!
//! A broker forgets a producer that has sent nothing to a partition for `producer.id.expiration.ms`
//! (a day by default). So this module treats a partition as new when it was not used for [`QUIET`].
//!
//! A topic that was deleted and re-created holds no producer's state. So its partitions are new
//! when the topic is looked up again after it was gone, and when its id differs from the last one
//! seen.
//!
//! # Topics that take small batches
//!
//! librdkafka has one `batch.size` for all topics, and a batch above a topic's `max.message.bytes`
//! is refused as a whole, although each of its records would fit. So each partition of such a topic
//! has no more in flight than fits one batch, however librdkafka forms its batches. Batches of
//! other topics stay as they are, no producer is re-created, and the limit follows the topic's own
//! when the topic is looked up again. A single record may always be sent, since only the broker
//! sees its compressed size. The cost: a topic whose limit is a few records takes a few records per
//! round trip and partition, and a record that waits holds up the records behind it.
//!
//! Rejected: a smaller `batch.size` for all topics, which would cost a new producer, the replay of
//! what was in flight, and small batches for every topic until a restart; a second producer for
//! small topics, which would double connections, memory and every question of order; and excluding
//! what was already sent from the limit, because librdkafka does not report it (a batch that is
//! retried stays the same batch, but a batch that waits for its connection takes in further
//! records).

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use relay::{Code, Record, TopicId, TopicName, witness::TopicUuid};
use tokio::time::Instant;

use super::{
    ffi::{TopicAddress, TopicHandle},
    timestamps::Keeps,
};

/// Far below the time after which a broker forgets a producer, and far above any pause after which
/// a further round trip would matter.
const QUIET: Duration = Duration::from_secs(3600);

/// How a topic limits what is sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TopicLimits {
    /// `max.message.bytes`, where that is known.
    pub max_message_bytes: Option<usize>,
    /// For how long it keeps records.
    pub keeps: Keeps,
}

/// The topics that were bound, by [`TopicId`] and by the address of librdkafka's topic object.
pub(super) struct BoundTopics {
    bound: Vec<Option<Bound>>,
    /// The largest batch that the producer makes, `batch.size`.
    batch_bytes: usize,
    by_address: HashMap<TopicAddress, TopicId>,
    /// The topic of the last report. Reports come in batches of one partition, so the next report
    /// is nearly always about the same topic.
    last: Option<(TopicAddress, TopicId)>,
    opened: Instant,
    /// Since `opened`, as of the last [`BoundTopics::tick`].
    now: Duration,
    /// In milliseconds since 1970, as of the last [`BoundTopics::tick`].
    now_ms: i64,
}

struct Bound {
    name: TopicName,
    handle: TopicHandle,
    /// The topic's id, once it was read: distinguishes topics that had this name one after the
    /// other.
    uuid: Option<TopicUuid>,
    /// How many bytes a partition may have in flight: the topic's `max.message.bytes` where that is
    /// less than a batch may hold.
    limit: u64,
    ages: Ages,
    /// By partition number, up to the greatest that was used.
    partitions: Vec<Partition>,
}

/// The records of a topic that were too old for it.
#[derive(Debug, Clone, Copy, Default)]
struct Ages {
    keeps: Keeps,
    /// How many were sent with the time of sending.
    sent_as_new: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Partition {
    state: BrokerState,
    /// Bytes sent and not yet reported as stored, by [`relay::Ticket::held_bytes`].
    unacked: u64,
}

/// The limit of a topic that takes any batch of this producer.
const UNLIMITED: u64 = u64::MAX;

impl BoundTopics {
    pub(super) fn new(batch_bytes: usize) -> Self {
        Self {
            bound: Vec::new(),
            batch_bytes,
            by_address: HashMap::new(),
            last: None,
            opened: Instant::now(),
            now: Duration::ZERO,
            now_ms: unix_ms(),
        }
    }

    /// Reads the clocks, which would be too expensive for every record.
    pub(super) fn tick(&mut self) {
        self.now = self.opened.elapsed();
        self.now_ms = unix_ms();
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
                ages: Ages::default(),
                partitions: Vec::new(),
            });
        }
    }

    pub(super) fn contains(&self, id: TopicId) -> bool {
        self.bound.get(id.index()).is_some_and(Option::is_some)
    }

    /// Takes over what was looked up, and treats all partitions as new. Records still in flight do
    /// no harm: a partition that stores one of them holds the producer's sequence numbers.
    pub(super) fn renew(&mut self, id: TopicId, limits: TopicLimits) {
        let TopicLimits { max_message_bytes, keeps } = limits;
        let limit = max_message_bytes.filter(|limit| *limit < self.batch_bytes);
        if let Some(Some(bound)) = self.bound.get_mut(id.index()) {
            bound.limit = limit.and_then(|limit| limit.try_into().ok()).unwrap_or(UNLIMITED);
            bound.ages.keeps = keeps;
            bound.uuid = None;
            bound.forget_states();
        }
    }

    /// Whether the topic takes smaller batches than the producer makes.
    pub(super) fn is_limited(&self, id: TopicId) -> bool {
        matches!(self.bound.get(id.index()), Some(Some(bound)) if bound.limit != UNLIMITED)
    }

    /// The topics of which records were sent with the time of sending, and how many of each.
    pub(super) fn sent_as_new(&self) -> impl Iterator<Item = (&TopicName, u64, Keeps)> {
        let bound = self.bound.iter().flatten().filter(|bound| bound.ages.sent_as_new > 0);
        bound.map(|bound| (&bound.name, bound.ages.sent_as_new, bound.ages.keeps))
    }

    /// Records the topic's id. Another id than before means that the topic was re-created.
    pub(super) fn identify(&mut self, id: TopicId, uuid: &TopicUuid) -> Identity {
        let Some(Some(bound)) = self.bound.get_mut(id.index()) else { return Identity::Same };
        match bound.uuid.replace(uuid.clone()) {
            Some(former) if former != *uuid => {
                bound.forget_states();
                Identity::Another
            }
            _ => Identity::Same,
        }
    }

    pub(super) fn name(&self, id: TopicId) -> Option<&str> {
        self.topic_name(id).map(TopicName::as_str)
    }

    pub(super) fn topic_name(&self, id: TopicId) -> Option<&TopicName> {
        self.bound.get(id.index())?.as_ref().map(|bound| &bound.name)
    }

    /// The partition that a record goes to; `None` for a topic that is not bound.
    #[inline]
    pub(super) fn place(&mut self, id: TopicId, partition: i32) -> Option<BoundPartition<'_>> {
        let Bound { name, handle, partitions, limit, ages, .. } =
            self.bound.get_mut(id.index())?.as_mut()?;
        let partition = usize::try_from(partition).ok()?;
        if partition >= partitions.len() {
            partitions.resize(partition + 1, Partition::default());
        }
        let partition = partitions.get_mut(partition)?;
        let (now, now_ms) = (self.now, self.now_ms);
        Some(BoundPartition { topic: handle, name, limit: *limit, ages, partition, now, now_ms })
    }

    /// The topic that a report is about; `None` for one that is not bound.
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

    /// Records that the partition has stored a record of this producer, which held `bytes`.
    #[inline]
    pub(super) fn stored(&mut self, id: TopicId, partition: i32, bytes: u64) {
        if let Some(place) = self.place(id, partition) {
            place.partition.unacked = place.partition.unacked.saturating_sub(bytes);
            place.partition.state.stored(place.now);
        }
    }
}

impl Bound {
    fn forget_states(&mut self) {
        for partition in &mut self.partitions {
            partition.state = BrokerState::Unknown;
        }
    }
}

/// Whether a topic is the one that had its name before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// No other id was seen.
    Same,
    /// It was deleted and re-created.
    Another,
}

/// One partition of a bound topic, for one record.
pub(super) struct BoundPartition<'t> {
    pub(super) topic: &'t TopicHandle,
    name: &'t TopicName,
    limit: u64,
    ages: &'t mut Ages,
    partition: &'t mut Partition,
    now: Duration,
    now_ms: i64,
}

impl BoundPartition<'_> {
    /// Whether the partition may be sent a record of `bytes` now.
    #[inline]
    pub(super) fn is_open(&self, bytes: u64) -> bool {
        let Partition { state, unacked } = *self.partition;
        state != BrokerState::FirstInFlight
            && (unacked == 0 || unacked.saturating_add(bytes) <= self.limit)
    }

    /// The time that a record carries: that of sending, where the topic would delete it before it
    /// is read.
    #[inline]
    pub(super) fn time_of(&self, record: &Record<'_>) -> i64 {
        if self.ages.keeps.admits(record.timestamp_ms, self.now_ms) {
            record.timestamp_ms
        } else {
            Record::NOW
        }
    }

    /// Records that the partition was sent a record of `bytes`, and with which time.
    #[inline]
    pub(super) fn sent(self, bytes: u64, (own, carried): (i64, i64)) {
        self.partition.state.sent(self.now);
        self.partition.unacked += bytes;
        if own != carried {
            self.ages.sent_as_new += 1;
            if self.ages.sent_as_new == 1 {
                let (code, topic) = (Code::TopicTimestamps.as_str(), self.name.as_str());
                let keeps = self.ages.keeps;
                tracing::warn!(
                    code,
                    topic,
                    "topic {topic} {keeps}: records that it would delete before they are read \
                     carry the time of sending"
                );
            }
        }
    }
}

fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// What a partition knows of this producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum BrokerState {
    /// It may hold no state of the producer.
    #[default]
    Unknown,
    /// Its first record is in flight.
    FirstInFlight,
    /// It holds the producer's sequence numbers. `used` is the time of the last use.
    Stored { used: Duration },
}

impl BrokerState {
    #[inline]
    fn sent(&mut self, now: Duration) {
        *self = match *self {
            Self::Stored { used } if now.saturating_sub(used) < QUIET => Self::Stored { used: now },
            Self::Unknown | Self::FirstInFlight | Self::Stored { .. } => Self::FirstInFlight,
        };
    }

    #[inline]
    fn stored(&mut self, now: Duration) {
        *self = Self::Stored { used: now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_was_idle_for_long_is_treated_as_a_new_one() {
        let mut state = BrokerState::Unknown;
        state.sent(Duration::ZERO);
        assert_eq!(state, BrokerState::FirstInFlight);
        state.stored(Duration::from_secs(1));
        for pause in [Duration::ZERO, QUIET / 2, QUIET / 2] {
            let BrokerState::Stored { used } = state else { panic!("{state:?}") };
            state.sent(used + pause);
        }
        let BrokerState::Stored { used } = state else { panic!("{state:?}") };
        state.sent(used + QUIET);
        assert_eq!(state, BrokerState::FirstInFlight);
    }
}
