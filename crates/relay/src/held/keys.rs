//! What is held: which keys, how much, and which events that come again are in the table.

use std::collections::{BTreeMap, HashMap};

use pgoutput::{Lsn, PgTimestamp};

use super::{EventId, KeyHash, KeyTotals, KnownAs, Loaded};

/// How much is held, or may be held. At a limit the session waits at the next event to be held
/// (R017).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldLimits {
    /// Keys, and events without one.
    pub keys: u64,
    /// Events.
    pub events: u64,
    /// Bytes of the events.
    pub bytes: u64,
}

/// Events and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
}

impl HeldLimits {
    /// Nothing is held.
    pub const NONE: Self = Self { keys: 0, events: 0, bytes: 0 };
}

/// Limits by which the core's memory for held keys stays below 2 MiB.
impl Default for HeldLimits {
    fn default() -> Self {
        Self { keys: 10_000, events: 1_000_000, bytes: 1 << 30 }
    }
}

/// What the table holds, as far as the core has to know it.
#[derive(Debug, Default)]
pub(crate) struct HeldKeys {
    keys: HashMap<KeyHash, KeyTotals, foldhash::fast::RandomState>,
    events: u64,
    bytes: u64,
    /// Events that the server may send again, and that are in the table.
    known: BTreeMap<EventId, KnownAs>,
}

impl HeldKeys {
    pub(crate) fn loaded(loaded: Loaded) -> Self {
        let Loaded { keys, known, leaving: _, mark: _ } = loaded;
        let (events, bytes) = keys.iter().fold((0, 0), |(events, bytes), (_, totals)| {
            (events + totals.events, bytes + totals.bytes)
        });
        Self { keys: keys.into_iter().collect(), events, bytes, known: known.into_iter().collect() }
    }

    /// Whether no row needs to be compared with what is held.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.known.is_empty()
    }

    pub(crate) fn contains(&self, key: &KeyHash) -> bool {
        self.keys.contains_key(key)
    }

    /// Keys, events and bytes.
    pub(crate) fn totals(&self) -> HeldLimits {
        let keys = u64::try_from(self.keys.len()).unwrap_or(u64::MAX);
        HeldLimits { keys, events: self.events, bytes: self.bytes }
    }

    /// When the transaction of the oldest event was committed.
    pub(crate) fn oldest(&self) -> Option<PgTimestamp> {
        self.keys.values().map(|totals| totals.oldest).min()
    }

    /// An event is to be written, or is written.
    pub(crate) fn add(&mut self, key: KeyHash, bytes: u64, event: (EventId, PgTimestamp)) {
        let (first, oldest) = event;
        let empty = KeyTotals { events: 0, bytes: 0, oldest, first };
        let totals = self.keys.entry(key).or_insert(empty);
        if first < totals.first {
            (totals.first, totals.oldest) = (first, oldest);
        }
        totals.events += 1;
        totals.bytes += bytes;
        self.events += 1;
        self.bytes += bytes;
    }

    /// Events of a key have left. `first` is the first event that is left of it, in the table or on
    /// its way there; without one the key is free.
    pub(crate) fn left(&mut self, key: KeyHash, left: Load, first: Option<(EventId, PgTimestamp)>) {
        let Some(totals) = self.keys.get_mut(&key) else { return };
        let gone = match first {
            None => Load { events: totals.events, bytes: totals.bytes },
            Some((first, oldest)) => {
                (totals.first, totals.oldest) = (first, oldest);
                // At least one is left, whatever was counted.
                let events = left.events.min(totals.events.saturating_sub(1));
                Load { events, bytes: left.bytes.min(totals.bytes) }
            }
        };
        totals.events -= gone.events;
        totals.bytes -= gone.bytes;
        self.events = self.events.saturating_sub(gone.events);
        self.bytes = self.bytes.saturating_sub(gone.bytes);
        if first.is_none() {
            self.keys.remove(&key);
        }
    }

    /// What an event that has come is in the table; `None` for one that is not there.
    pub(crate) fn known(&self, id: EventId) -> Option<KnownAs> {
        self.known.get(&id).copied()
    }

    /// Whether an event of a key comes again that precedes all events that the table has of it:
    /// then it waits for none of them.
    pub(crate) fn precedes(&self, key: &KeyHash, id: EventId) -> bool {
        self.keys.get(key).is_some_and(|totals| id < totals.first)
    }

    /// Whether the server may send events again that are in the table, or events before them.
    pub(crate) fn has_known(&self) -> bool {
        !self.known.is_empty()
    }

    /// The stream has come to this event: those before it do not come any more.
    pub(crate) fn forget_before_event(&mut self, id: EventId) {
        if self.known.first_key_value().is_some_and(|(known, _)| *known < id) {
            self.known = self.known.split_off(&id);
        }
    }

    /// The stream has come to this position. Transactions come in the order of their commits, so
    /// those that commit before it do not come any more.
    pub(crate) fn forget_before(&mut self, position: Lsn) {
        if !self.known.is_empty() {
            self.known = self.known.split_off(&EventId { commit_lsn: position, index: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> PgTimestamp {
        PgTimestamp::from_micros(micros)
    }

    fn id(lsn: u64, index: u32) -> EventId {
        EventId { commit_lsn: Lsn::from_u64(lsn), index }
    }

    fn totals(events: u64) -> KeyTotals {
        KeyTotals { events, bytes: events * 10, oldest: at(5), first: id(10, 0) }
    }

    #[test]
    fn a_key_is_free_when_the_table_has_nothing_of_it() {
        let key = KeyHash::of_key(b"a");
        let loaded = Loaded { keys: vec![(key, totals(2))], ..Loaded::default() };
        let mut keys = HeldKeys::loaded(loaded);
        keys.add(key, 10, (id(20, 0), at(9)));
        assert_eq!(keys.totals(), HeldLimits { keys: 1, events: 3, bytes: 30 });
        assert_eq!(keys.oldest(), Some(at(5)));
        let two = Load { events: 2, bytes: 20 };
        keys.left(key, two, Some((id(20, 0), at(9))));
        assert_eq!(keys.totals(), HeldLimits { keys: 1, events: 1, bytes: 10 });
        assert_eq!(keys.oldest(), Some(at(9)));
        keys.left(key, two, Some((id(20, 0), at(9))));
        assert_eq!(keys.totals().events, 1, "there is one, whatever was counted");
        keys.left(key, Load::default(), None);
        assert!(!keys.contains(&key) && keys.is_empty());
        assert_eq!(keys.totals(), HeldLimits::NONE);
    }

    #[test]
    fn known_events_are_forgotten_when_the_stream_has_passed_them() {
        let known = [id(10, 0), id(10, 3), id(20, 0)].map(|id| (id, KnownAs::Settled)).to_vec();
        let mut keys = HeldKeys::loaded(Loaded { known, ..Loaded::default() });
        keys.forget_before(Lsn::from_u64(10));
        assert_eq!(keys.known(id(10, 3)), Some(KnownAs::Settled));
        assert_eq!(keys.known(id(10, 1)), None);
        keys.forget_before(Lsn::from_u64(11));
        assert_eq!(keys.known(id(10, 3)), None);
        assert!(!keys.is_empty());
        keys.forget_before(Lsn::from_u64(30));
        assert!(keys.is_empty());
    }
}
