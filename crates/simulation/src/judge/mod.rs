//! Holds everything that happens against the truth, at the moment it happens.

use crate::{
    history::{Event, History, IDS, KEYS, Publishing, TYPES},
    invariant::{Invariant, Violation},
    kafka::{Kafka, Lane, Taken, Topic, partition},
    plan::Keeping,
};

/// What is remembered of one session: one replication connection of one router.
#[derive(Debug)]
struct Session {
    /// Serial number of its first event.
    first: Option<u64>,
    /// Place of the last record of each key that Kafka has from it.
    last: [Option<u64>; KEYS],
    /// Serial number past the last event that was produced before it.
    before: u64,
    /// How many of these may come again, and how many of those that Kafka has it has produced.
    bound: u64,
    again: u64,
    /// The partition counts under which these went out, where they are known.
    pins: [Option<i32>; TYPES.len()],
    /// The topics that it has produced to.
    topics: [bool; TYPES.len()],
    /// Number of its newest event.
    newest: Option<usize>,
    /// Where its window begins: the highest position that it told, or that its witness says.
    known: u64,
    /// Whether nothing of it may be produced any more.
    is_over: bool,
}

/// How a record reached its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// The ordinary way.
    Producer,
    /// From a producer that is gone.
    Ghost,
    /// A second time, by the cluster's own doing.
    Repetition,
}

/// See the module's documentation.
pub struct Judge {
    violation: Option<Violation>,
    sessions: Vec<Session>,
    /// Distinct events per key that Kafka has.
    stored: [u64; KEYS],
    /// Of each key the newest session that has produced it, and the place of its last record.
    tail: [Option<(usize, u64)>; KEYS],
    /// Serial number past the last event that any session produced.
    produced: u64,
    /// Records that repeat one that Kafka had.
    pub duplicates: u64,
    /// All records.
    pub records: u64,
    keeping: Keeping,
    /// The highest acknowledged position of a witness.
    attested: u64,
    /// What may lie past the position where a window begins.
    window: u64,
    /// Reasons for duplicates so far.
    interruptions: u64,
}

impl Judge {
    /// For routers with this window.
    pub fn new(window: u64, keeping: Keeping) -> Self {
        Self {
            violation: None,
            sessions: Vec::new(),
            stored: [0; KEYS],
            tail: [None; KEYS],
            produced: 0,
            duplicates: 0,
            records: 0,
            keeping,
            attested: 0,
            window,
            interruptions: 0,
        }
    }

    /// An invariant does not hold. The first counts.
    pub fn accuse(&mut self, invariant: Invariant, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { invariant, what: what() });
        }
    }

    /// The first violation.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Something happened after which records may come again.
    pub fn interrupted(&mut self) {
        self.interruptions += 1;
    }

    /// A session begins that produces what lies past `from`; `excused` of these events may have
    /// been confirmed before, and forgotten.
    pub fn session_begins(&mut self, history: &History, from: u64, excused: u64) -> usize {
        let again = self.produced.saturating_sub(history.serial_past(from));
        let bound = self.window.max(history.largest_past(from)) + excused;
        if again > bound {
            self.accuse(Invariant::S4Duplicates, || {
                format!("a session repeats {again} events, {bound} may be in flight")
            });
        }
        if again > 0 && self.interruptions == 0 {
            self.accuse(Invariant::S4Duplicates, || {
                format!("{again} events come again although nothing was interrupted")
            });
        }
        self.sessions.push(Session {
            first: None,
            before: self.produced,
            bound,
            again: 0,
            pins: [None; TYPES.len()],
            topics: [false; TYPES.len()],
            newest: None,
            last: [None; KEYS],
            known: from,
            is_over: false,
        });
        self.sessions.len() - 1
    }

    /// What was in flight before a session went to partitions by these counts, and has to go there
    /// again.
    pub fn pin(&mut self, session: usize, pins: [Option<i32>; TYPES.len()]) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.pins = pins;
        }
    }

    /// The process of a session has stood still for so long that another may have taken over:
    /// nothing more is produced.
    pub fn session_must_end(&mut self, session: usize) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.is_over = true;
        }
    }

    /// A router's session is over in its own view, or its process is gone.
    pub fn session_ends(&mut self, session: usize) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.is_over = true;
        }
    }

    /// The core gave a record to the producer.
    pub fn produced(&mut self, history: &History, kafka: &Kafka, session: usize, taken: &Taken) {
        let Some(event) = taken.event.and_then(|number| history.events.get(number)) else {
            self.accuse(Invariant::S6Fidelity, || format!("nobody wrote {taken:?}"));
            return;
        };
        let topic = event.key / IDS.len();
        let id = IDS[event.key % IDS.len()].as_bytes();
        let is_right = taken.key == Some(event.key) && taken.is_whole && event.is_published();
        if !is_right {
            self.accuse(Invariant::S6Fidelity, || format!("{taken:?} is made of {event:?}"));
        }
        let counts = &kafka.topics[topic].counts;
        if !counts.iter().any(|count| partition::of_key(id, *count) == taken.partition) {
            self.accuse(Invariant::S3Order, || {
                format!("a key of {} went to partition {}", TYPES[topic], taken.partition)
            });
        }
        let pinned = self.sessions.get(session).filter(|one| event.serial < one.before);
        // A topic that was made again with fewer has nothing of what went out before.
        let Topic { partitions, fewest, .. } = &kafka.topics[topic];
        let most = partitions.unwrap_or(0).min(fewest.unwrap_or(i32::MAX));
        let pin = pinned.and_then(|one| one.pins[topic]).filter(|count| *count <= most);
        if event.is_real && pin.is_some_and(|pin| partition::of_key(id, pin) != taken.partition) {
            self.accuse(Invariant::S3Order, || {
                format!("event {:?} comes again in partition {}", taken.event, taken.partition)
            });
        }
        self.count_window(history, session, (taken.event, event));
    }

    fn count_window(
        &mut self,
        history: &History,
        session: usize,
        (number, event): (Option<usize>, &Event),
    ) {
        if event.is_real {
            self.produced = self.produced.max(event.serial + 1);
        }
        let Some(log) = self.sessions.get_mut(session) else { return };
        if log.is_over {
            self.accuse(Invariant::S7SingleWriter, || "a session that is over produces".to_owned());
            return;
        }
        if !event.is_real {
            return;
        }
        log.newest = number.max(log.newest);
        let first = *log.first.get_or_insert(event.serial);
        let from = first.max(history.serial_past(log.known));
        log.again += u64::from(event.is_stored && event.serial < log.before);
        let (again, limit) = (log.again, log.bound);
        let past = (event.serial + 1).saturating_sub(from);
        let own = history.transactions.get(event.transaction).map_or(0, |own| own.events.len());
        let bound = self.window.max(u64::try_from(own).expect("a length fits"));
        if past > bound {
            self.accuse(Invariant::S4Duplicates, || {
                format!("{past} events past the confirmed position, {bound} allowed")
            });
        }
        if again > limit {
            self.accuse(Invariant::S4Duplicates, || {
                format!("a session repeats {again} events, {limit} may be in flight")
            });
        }
    }

    /// Whether no session has begun since this one.
    pub fn is_newest(&self, session: usize) -> bool {
        session.wrapping_add(1) == self.sessions.len()
    }

    /// Whether a session has produced to this topic for the first time.
    pub fn is_first(&mut self, session: usize, topic: usize) -> bool {
        let log = self.sessions.get_mut(session);
        log.is_some_and(|log| !std::mem::replace(&mut log.topics[topic], true))
    }

    /// The newest event that a session has produced.
    pub fn newest(&self, session: usize) -> Option<usize> {
        self.sessions.get(session)?.newest
    }

    /// A record is in its partition.
    pub fn stored(
        &mut self,
        history: &mut History,
        (number, session): (usize, usize),
        lane: Lane,
        via: Via,
    ) {
        self.records += 1;
        let Some(event) = history.events.get_mut(number) else { return };
        let key = event.key;
        let place = event.place;
        if via == Via::Repetition {
            self.duplicates += 1;
            return;
        }
        if let Some(last) = self.sessions.get(session).and_then(|session| session.last[key])
            && place != last + 1
        {
            self.accuse(Invariant::S3Order, || {
                format!(
                    "session {session} stores event {place} of key {key} after event {last} ({lane:?})"
                )
            });
        }
        if let Some(session) = self.sessions.get_mut(session) {
            session.last[key] = Some(place);
        }
        // Of a history that a restored backup does not have.
        if !event.is_real {
            return;
        }
        self.follows_its_forerunner(history, key, session, place);
        let Some(event) = history.events.get_mut(number) else { return };
        let first = self.stored[key];
        if event.is_stored {
            self.duplicates += 1;
        } else if place > first {
            self.accuse(Invariant::S3Order, || {
                format!("event {place} of key {key} is stored before event {first}")
            });
        } else {
            // What was accepted as missing may arrive late all the same.
            event.is_stored = true;
            self.pass_what_is_settled(history, key);
        }
    }

    /// What comes again comes again as a whole: whatever followed a repeated event follows it once
    /// more. Else the last record of a key would not be its last event. What a session that has
    /// lost the slot still sends comes between the records of the next, which sends it again, or
    /// left it out before that was there.
    fn follows_its_forerunner(
        &mut self,
        history: &History,
        key: usize,
        session: usize,
        place: u64,
    ) {
        let has_lost_the_slot = session + 1 < self.sessions.len();
        let next = match self.tail[key] {
            Some((newest, _)) if session < newest => return,
            Some((_, last)) if has_lost_the_slot && place <= last => return,
            Some((_, last)) => last + 1,
            None => 0,
        };
        self.tail[key] = Some((session, place));
        let mut between = (next..place).filter_map(|place| {
            let number = history.by_key[key].get(usize::try_from(place).ok()?)?;
            history.events.get(*number)
        });
        if between.any(|event| !event.is_excused) {
            self.accuse(Invariant::S3Order, || {
                format!("event {place} of key {key} follows event {}", next.saturating_sub(1))
            });
        }
    }

    fn pass_what_is_settled(&mut self, history: &History, key: usize) {
        let next = |first: u64| {
            let place = usize::try_from(first).expect("a place fits");
            history.by_key[key].get(place).map(|number| &history.events[*number])
        };
        while next(self.stored[key]).is_some_and(Event::is_settled) {
            self.stored[key] += 1;
        }
    }

    /// A person has accepted that events are missing: those behind them are in order.
    pub fn look_past_what_is_excused(&mut self, history: &History) {
        for key in 0..KEYS {
            self.pass_what_is_settled(history, key);
        }
    }

    /// The server takes a position for confirmed.
    pub fn confirmed(&mut self, history: &History, session: usize, from: u64, to: u64) {
        if to > history.end_of_wal {
            let end = history.end_of_wal;
            self.accuse(Invariant::S8Slot, || format!("{to} is confirmed, WAL ends at {end}"));
        }
        if to < from {
            self.accuse(Invariant::S8Slot, || format!("the slot goes back from {from} to {to}"));
        }
        // What commits before the position is not sent again, even if it ends behind it.
        for transaction in history.first_from(from)..history.first_from(to.max(from)) {
            let transaction = &history.transactions[transaction];
            for number in transaction.events.clone() {
                let event = &history.events[number];
                if event.catalog.publishing == Publishing::Missing && !event.is_excused {
                    self.accuse(Invariant::S1Complete, || {
                        format!("confirmed past event {number}, which the server skipped aloud")
                    });
                }
                if event.is_published() && !event.is_settled() {
                    self.accuse(Invariant::S2NeverAhead, || {
                        format!("{to} is confirmed, event {number} is not in Kafka")
                    });
                }
            }
        }
        if self.keeping == Keeping::Witness && to > from.max(self.attested) {
            let attested = self.attested;
            self.accuse(Invariant::S2NeverAhead, || {
                format!("{to} is confirmed, the witness says no more than {attested}")
            });
        }
        self.tells(session, to);
    }

    /// A session has said a position, whether or not it arrives.
    pub fn tells(&mut self, session: usize, position: u64) {
        if self.keeping == Keeping::Memory {
            self.is_known_to(session, position);
        }
    }

    /// A record of the witness with this position is acknowledged, or was found by a session that
    /// begins.
    pub fn attests(&mut self, position: u64) {
        self.attested = self.attested.max(position);
    }

    /// The highest such position.
    pub fn attested(&self) -> u64 {
        self.attested
    }

    /// The window of a session begins after this position.
    pub fn is_known_to(&mut self, session: usize, position: u64) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.known = session.known.max(position);
        }
    }

    /// A process left and says that everything is delivered and confirmed.
    pub fn drained(&mut self, history: &History, session: usize, confirmed: u64) {
        let newest = self.newest(session).map_or(0, |newest| history.events[newest].serial + 1);
        let again = newest.saturating_sub(history.serial_past(confirmed));
        if again > 0 {
            self.accuse(Invariant::S4Duplicates, || {
                format!("an orderly end leaves {again} events to come again")
            });
        }
    }

    /// A backup was restored: events per key and published events as they were then.
    pub fn went_back(&mut self, history: &History) {
        for (stored, place) in self.stored.iter_mut().zip(history.places) {
            *stored = (*stored).min(place);
        }
        for (tail, place) in self.tail.iter_mut().zip(history.places) {
            *tail =
                tail.and_then(|(session, last)| Some((session, last.min(place.checked_sub(1)?))));
        }
        self.produced = self.produced.min(history.serial);
        self.attested = self.attested.min(history.end_of_wal);
    }
}

#[cfg(test)]
mod tests;
