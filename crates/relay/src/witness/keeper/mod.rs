//! What this process knows of the witness, and when it writes to it.
//!
//! One write is in flight at a time. A position is written at once if the window, an isolated
//! transaction, a server that stops or asks for a reply, or a drain waits for it; otherwise at most
//! twice a second, once a second where only keepalives moved the position, and not at all while
//! nothing moves.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use pgoutput::Lsn;

use super::{
    LastTransaction, Witness,
    combine::join,
    key,
    record::{PARTITIONS_MAX, Rank},
};
use crate::{
    clock::Moment,
    failpoint::{self, Failpoint},
    progress::{WitnessStore, ledger::WitnessTicket, ticket::SessionId},
    protocol::{StateTopicRecord, WitnessSettings, Write, WriteAck},
    routing::topics::RecordedPartitions,
};

mod gaps;
mod reading;
mod topics;
mod unwritten;

pub(crate) use reading::{OthersChange, StateTopicChange};
use unwritten::{OwnGaps, UnwrittenGaps};

/// The time between two writes, unless one is needed at once ([`WriteUrgency::Now`]). A commit that
/// arrives during a write waits a little longer for its own acknowledgement. A write takes one or
/// two milliseconds, so two writes a second affect less than one commit in a hundred, at any rate
/// of commits, and do not move the 99th percentile. Ten writes a second moved it.
const WRITE_INTERVAL: Duration = Duration::from_millis(500);
/// The time between two writes where no event was acknowledged since the last.
const KEEPALIVE_WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// How urgent a write of the position is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WriteUrgency {
    /// Only keepalives moved the position.
    KeepalivesOnly,
    /// Events were acknowledged.
    Events,
    /// The window, an isolated transaction, a server that stops or asks for a reply, or a drain
    /// waits for it.
    Now,
}

/// Kafka was taken back to an earlier copy, or the state topic was made again, since this process
/// has read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakenBack;

/// The witness as one process knows it, and the write that is in flight.
pub(crate) struct Keeper {
    settings: Option<WitnessSettings>,
    /// The witness that counts: by the records that were read, the writes that were acknowledged,
    /// and the gaps that this process opened. Without a state topic it is kept here only.
    witness: Option<Witness>,
    /// The records as they were last read.
    records: Vec<StateTopicRecord>,
    /// What the present session writes; `None` while no session writes.
    session_record: Option<Box<SessionRecord>>,
    last_session: Option<Box<LastSession>>,
    /// A gap that is not yet in Kafka.
    unwritten: Option<UnwrittenGaps>,
    own_gaps: OwnGaps,
    in_flight: Option<InFlight>,
    /// The id of the Kafka cluster that the topic was last read from.
    cluster: String,
    /// The greatest offset that a record of the topic was read at there, or acknowledged.
    newest: Option<i64>,
    /// The offset and the key of a write that was acknowledged at or before [`Self::newest`], until
    /// the topic is read.
    taken_back: Option<(i64, Vec<u8>)>,
    /// The keys of such writes: their records rely on what Kafka has no more, and do not count.
    uncounted: BTreeSet<Vec<u8>>,
    /// The session's record as Kafka has acknowledged it last.
    acknowledged: Option<OwnRecord>,
    /// The same when the topic was last asked for: the answer must have it.
    expected: Option<OwnRecord>,
    written_at: Option<Moment>,
    last_write_number: u64,
    /// Keys of sessions before the present one.
    keys_to_delete: VecDeque<Vec<u8>>,
    /// Topics of the witness with which the present session began, and which were not looked at
    /// since.
    unseen_topics: BTreeSet<String>,
}

/// What a session had acknowledged when it ended.
struct LastSession {
    witness: Witness,
    /// The keys in the state topic at that time. A new key is that of another router, which writes
    /// its record before it produces anything. That router may have sent a part of what this
    /// witness covers again, and the rest has to follow, else the last record of a key in Kafka
    /// would not be its last event; so this witness is dropped.
    keys: BTreeSet<Vec<u8>>,
}

struct SessionRecord {
    key: Vec<u8>,
    witness: Witness,
    /// The partition counts in the record that Kafka has under the key.
    recorded_partitions: BTreeMap<String, i32>,
    /// Whether something that this session noted is not in Kafka yet.
    unwritten: Unwritten,
    stored: Stored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Unwritten {
    #[default]
    None,
    Some,
}

/// Whether Kafka has a record under the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    NotYet,
    Yes,
}

/// A session's record, which only that session writes.
#[derive(Debug, Clone)]
struct OwnRecord {
    key: Vec<u8>,
    rank: Rank,
}

struct InFlight {
    number: u64,
    /// The greatest offset that was known when it was handed over.
    after: Option<i64>,
    key: Vec<u8>,
    what: WriteKind,
}

enum WriteKind {
    Position(Witness, WitnessTicket),
    Record(Witness),
    Deletion,
}

impl WriteKind {
    /// The record that is written; `None` where a key is deleted.
    fn witness(&self) -> Option<&Witness> {
        match self {
            Self::Position(witness, _) | Self::Record(witness) => Some(witness),
            Self::Deletion => None,
        }
    }
}

impl Keeper {
    pub(crate) fn new(settings: Option<WitnessSettings>) -> Self {
        Self {
            settings,
            witness: None,
            records: Vec::new(),
            session_record: None,
            last_session: None,
            unwritten: None,
            own_gaps: OwnGaps::default(),
            in_flight: None,
            cluster: String::new(),
            newest: None,
            taken_back: None,
            uncounted: BTreeSet::new(),
            acknowledged: None,
            expected: None,
            written_at: None,
            last_write_number: 0,
            keys_to_delete: VecDeque::new(),
            unseen_topics: BTreeSet::new(),
        }
    }

    pub(crate) fn store(&self) -> WitnessStore {
        if self.settings.is_some() { WitnessStore::Kafka } else { WitnessStore::Memory }
    }

    pub(crate) fn witness(&self) -> Option<&Witness> {
        self.witness.as_ref()
    }

    /// A session begins, and will write this record. The keys of earlier sessions are to be
    /// deleted.
    pub(crate) fn begin(&mut self, id: SessionId, sessions: u64, witness: Witness) {
        self.unseen_topics = witness.topics.keys().cloned().collect();
        let Some(settings) = &self.settings else {
            self.witness = Some(witness);
            return;
        };
        let key = key::of_session(&settings.key, &settings.process, sessions, id);
        let witness = match &self.session_record {
            Some(earlier) => witness.ranked_after(&earlier.witness),
            None => witness,
        };
        self.keys_to_delete = self.records.iter().map(|record| record.key.clone()).collect();
        self.keys_to_delete
            .extend(self.session_record.take().map(|session_record| session_record.key));
        self.keys_to_delete.retain(|other| *other != key);
        let (recorded_partitions, unwritten, stored) =
            (BTreeMap::new(), Unwritten::Some, Stored::NotYet);
        self.session_record =
            Some(Box::new(SessionRecord { key, witness, recorded_partitions, unwritten, stored }));
    }

    /// Changes the record that the present session writes, without writing it: the next write takes
    /// it along.
    pub(crate) fn update(&mut self, change: impl FnOnce(&mut Witness)) {
        match (&mut self.session_record, &mut self.witness) {
            (Some(session_record), _) => change(&mut session_record.witness),
            (None, Some(known)) if self.settings.is_none() => change(known),
            (None, _) => {}
        }
    }

    /// A session has ended, with everything before this position acknowledged. The next session of
    /// this process need not send that again, although the position is not in the state topic yet.
    pub(crate) fn session_ended(&mut self, position: Lsn, last: Option<LastTransaction>) {
        let Some(known) = &mut self.witness else { return };
        if position <= known.position {
            return;
        }
        if self.settings.is_none() {
            known.position = position;
            known.last = last.or(known.last);
        } else if let Some(session_record) = &self.session_record {
            let last = last.or(session_record.witness.last);
            let witness = Witness { position, last, ..session_record.witness.clone() };
            let read = self.records.iter().map(|record| record.key.clone());
            let keys = read.chain([session_record.key.clone()]).collect();
            self.last_session = Some(Box::new(LastSession { witness, keys }));
        }
    }

    /// The witness for the next session of this process: what is known, and what is remembered.
    pub(crate) fn latest(&self) -> Option<Witness> {
        let last_session =
            self.last_session.as_ref().map(|last_session| last_session.witness.clone());
        join(self.witness.clone().into_iter().chain(last_session))
    }

    /// Whether the acknowledgement of a write is awaited.
    pub(crate) fn is_writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether the present session may write a position now.
    pub(crate) fn may_write_position(&self, urgency: WriteUrgency, at: Moment) -> bool {
        self.in_flight.is_none() && self.due_at(urgency).is_none_or(|due| due <= at)
    }

    /// When the next position may be written; `None`: at once.
    pub(crate) fn due_at(&self, urgency: WriteUrgency) -> Option<Moment> {
        let interval = match urgency {
            WriteUrgency::Now => return None,
            WriteUrgency::Events => WRITE_INTERVAL,
            WriteUrgency::KeepalivesOnly => KEEPALIVE_WRITE_INTERVAL,
        };
        self.written_at.map(|written| written + interval)
    }

    /// The write of a position; `None` without a session that writes.
    pub(crate) fn write_position(
        &mut self,
        ticket: WitnessTicket,
        last: Option<LastTransaction>,
        at: Moment,
    ) -> Option<Write> {
        let session_record = self.session_record.as_mut()?;
        session_record.witness.position = ticket.position();
        session_record.witness.last = last;
        session_record.unwritten = Unwritten::None;
        let (key, witness) = (session_record.key.clone(), session_record.witness.clone());
        Some(self.write(key, WriteKind::Position(witness, ticket), at))
    }

    /// The next write other than a position: first what the session noted, then the deletion of an
    /// earlier session's key, once a record of this session is in Kafka.
    pub(crate) fn write_rest(&mut self, at: Moment) -> Option<Write> {
        let session_record = self.session_record.as_mut().filter(|_| self.in_flight.is_none())?;
        if std::mem::take(&mut session_record.unwritten) == Unwritten::Some {
            let (key, witness) = (session_record.key.clone(), session_record.witness.clone());
            return Some(self.write(key, WriteKind::Record(witness), at));
        }
        if session_record.stored == Stored::NotYet {
            return None;
        }
        let key = self.keys_to_delete.pop_front()?;
        Some(self.write(key, WriteKind::Deletion, at))
    }

    fn write(&mut self, key: Vec<u8>, what: WriteKind, at: Moment) -> Write {
        let value = what.witness().map(Witness::encode);
        failpoint::reached(Failpoint::BeforeWitness);
        self.last_write_number += 1;
        if matches!(what, WriteKind::Position(..)) {
            self.written_at = Some(at);
        }
        let number = self.last_write_number;
        let after = self.newest;
        self.in_flight = Some(InFlight { number, after, key: key.clone(), what });
        Write { number, key, value }
    }

    /// A write is acknowledged. If it was a position, returns the ticket that makes the
    /// position confirmable.
    ///
    /// # Errors
    /// Kafka has given it an offset that a record had already.
    pub(crate) fn written(&mut self, ack: WriteAck) -> Result<Option<WitnessTicket>, TakenBack> {
        let WriteAck { number, offset } = ack;
        let in_flight = self.in_flight.take_if(|in_flight| in_flight.number == number);
        let Some(in_flight) = in_flight else { return Ok(None) };
        failpoint::reached(Failpoint::WitnessAcked);
        if in_flight.after >= Some(offset) {
            self.newest = Some(offset);
            self.taken_back = Some((offset, in_flight.key));
            return Err(TakenBack);
        }
        self.newest = self.newest.max(Some(offset));
        if let Some(session_record) =
            self.session_record.as_mut().filter(|own| own.key == in_flight.key)
        {
            session_record.stored = Stored::Yes;
            if let Some(witness) = in_flight.what.witness() {
                self.acknowledged = Some(OwnRecord { key: in_flight.key, rank: witness.rank() });
                if session_record.recorded_partitions != witness.partitions {
                    session_record.recorded_partitions.clone_from(&witness.partitions);
                }
            }
        }
        match in_flight.what {
            WriteKind::Position(witness, ticket) => {
                self.witness = join(self.witness.take().into_iter().chain([witness]));
                Ok(Some(ticket))
            }
            WriteKind::Record(witness) => {
                let is_gap = |unwritten: &mut UnwrittenGaps| unwritten.witness == witness;
                self.unwritten.take_if(is_gap);
                self.witness = join(self.witness.take().into_iter().chain([witness]));
                Ok(None)
            }
            WriteKind::Deletion => Ok(None),
        }
    }

    /// The producer is replaced: the write in flight may be stored or not, and will not be
    /// acknowledged.
    pub(crate) fn sink_replaced(&mut self) {
        self.in_flight = None;
        if let Some(session_record) = &mut self.session_record {
            session_record.unwritten = Unwritten::Some;
        }
    }

    /// Notes the partition counts of topics for the session's record. Counts of other topics stay:
    /// those topics may still have records of an earlier session in flight.
    pub(crate) fn note_partitions<'t>(&mut self, topics: impl Iterator<Item = (&'t str, i32)>) {
        let Some(session_record) = &mut self.session_record else { return };
        let noted = &mut session_record.witness.partitions;
        for (name, count) in topics {
            let is_new = noted.get(name) != Some(&count);
            if is_new && (noted.len() < PARTITIONS_MAX || noted.contains_key(name)) {
                noted.insert(name.to_owned(), count);
                session_record.unwritten = Unwritten::Some;
            }
        }
    }

    /// The partition counts that the next session will certainly find: those in this session's own
    /// record. Records of others do not count: this session deletes them, or another session does
    /// that has lost the slot and has not noticed it yet.
    pub(crate) fn recorded_partitions(&self) -> RecordedPartitions<'_> {
        let partitions =
            self.session_record.as_ref().map(|session_record| &session_record.recorded_partitions);
        RecordedPartitions { partitions, limit: PARTITIONS_MAX }
    }
}
