//! What this process knows of the witness, and when it writes to it.
//!
//! One write is in flight at a time. A position is written at once if the window, a stopping server
//! or a drain waits for it; otherwise at most twice a second, once a second where only keepalives
//! moved the position, and not at all while nothing moves.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use pgoutput::Lsn;

use super::{LastTransaction, Witness, combine::join, key, record::PARTITIONS_MAX};
use crate::{
    clock::Moment,
    failpoint::{self, Failpoint},
    progress::{
        ledger::{Attestation, Evidence},
        ticket::SessionId,
    },
    protocol::{StateRecord, WitnessSettings, Write},
    routing::topics::Vouched,
    source::Kept,
};

mod gaps;
mod reading;
mod unrecorded;

pub(crate) use reading::{OthersChange, StateTopicChange};
use unrecorded::{Opened, Unrecorded};

/// The time between two writes, unless one is needed at once ([`Want::Now`]). A commit that arrives
/// during a write waits a little longer for its own acknowledgement. A write takes one or two
/// milliseconds, so two writes a second affect less than one commit in a hundred, at any rate of
/// commits, and do not move the 99th percentile. Ten writes a second moved it.
const WRITE_INTERVAL: Duration = Duration::from_millis(500);
/// The time between two writes where no event was acknowledged since the last.
const KEEPALIVE_WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// How urgent a write of the position is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Want {
    /// Only keepalives moved the position.
    Quiet,
    /// Events were acknowledged.
    Events,
    /// The window, a stopping server or a drain waits for it.
    Now,
}

/// The witness as one process knows it, and the write that is in flight.
pub(crate) struct Keeper {
    settings: Option<WitnessSettings>,
    /// The witness that counts: by the records that were read, the writes that were acknowledged,
    /// and the gaps that this process opened. Without a state topic it is kept here only.
    known: Option<Witness>,
    /// The records as they were last read.
    read: Vec<StateRecord>,
    /// What the present session writes; `None` before the first, and without a state topic.
    present: Option<Box<SessionRecord>>,
    remembered: Option<Box<Remembered>>,
    /// A gap that is not yet in Kafka.
    unrecorded: Option<Unrecorded>,
    opened: Opened,
    in_flight: Option<InFlight>,
    written_at: Option<Moment>,
    last_write_number: u64,
    /// Keys of sessions before the present one.
    outdated: VecDeque<Vec<u8>>,
}

/// What a session had acknowledged when it ended.
struct Remembered {
    witness: Witness,
    /// The keys in the state topic at that time. A new key is that of another router, which writes
    /// its record before it produces anything. That router may have sent a part of what this
    /// witness covers again, and the rest has to follow; so this witness is dropped.
    keys: BTreeSet<Vec<u8>>,
}

struct SessionRecord {
    key: Vec<u8>,
    witness: Witness,
    /// The partition counts in the record that Kafka has under the key.
    vouched: BTreeMap<String, i32>,
    /// Whether something that this session noted is not in Kafka yet.
    news: Unwritten,
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

struct InFlight {
    number: u64,
    key: Vec<u8>,
    what: WriteKind,
}

enum WriteKind {
    Position(Witness, Attestation),
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
            known: None,
            read: Vec::new(),
            present: None,
            remembered: None,
            unrecorded: None,
            opened: Opened::default(),
            in_flight: None,
            written_at: None,
            last_write_number: 0,
            outdated: VecDeque::new(),
        }
    }

    pub(crate) fn kept(&self) -> Kept {
        if self.settings.is_some() { Kept::InKafka } else { Kept::InMemory }
    }

    pub(crate) fn evidence(&self) -> Evidence {
        if self.settings.is_some() { Evidence::Witness } else { Evidence::None }
    }

    pub(crate) fn known(&self) -> Option<&Witness> {
        self.known.as_ref()
    }

    /// A session begins, and will write this record. The keys of earlier sessions are to be
    /// deleted.
    pub(crate) fn begin(&mut self, id: SessionId, sessions: u64, witness: Witness) {
        let Some(settings) = &self.settings else {
            self.known = Some(witness);
            return;
        };
        let key = key::of_session(&settings.pipeline, &settings.process, sessions, id);
        self.outdated = self.read.iter().map(|record| record.key.clone()).collect();
        self.outdated.extend(self.present.take().map(|present| present.key));
        self.outdated.retain(|other| *other != key);
        let (vouched, news, stored) = (BTreeMap::new(), Unwritten::Some, Stored::NotYet);
        self.present = Some(Box::new(SessionRecord { key, witness, vouched, news, stored }));
    }

    /// Changes the record that the present session writes, without writing it: the next write takes
    /// it along.
    pub(crate) fn update(&mut self, change: impl FnOnce(&mut Witness)) {
        match (&mut self.present, &mut self.known) {
            (Some(present), _) => change(&mut present.witness),
            (None, Some(known)) if self.settings.is_none() => change(known),
            (None, _) => {}
        }
    }

    /// A session has ended, with everything before this position acknowledged. The next session of
    /// this process need not send that again, although the position is not in the state topic yet.
    pub(crate) fn remember(&mut self, position: Lsn, last: Option<LastTransaction>) {
        let Some(known) = &mut self.known else { return };
        if position <= known.position {
            return;
        }
        if self.settings.is_none() {
            known.position = position;
            known.last = last.or(known.last);
        } else if let Some(present) = &self.present {
            let last = last.or(present.witness.last);
            let witness = Witness { position, last, ..present.witness.clone() };
            let read = self.read.iter().map(|record| record.key.clone());
            let keys = read.chain([present.key.clone()]).collect();
            self.remembered = Some(Box::new(Remembered { witness, keys }));
        }
    }

    /// The witness for the next session of this process: what is known, and what is remembered.
    pub(crate) fn latest(&self) -> Option<Witness> {
        let remembered = self.remembered.as_ref().map(|remembered| remembered.witness.clone());
        join(self.known.clone().into_iter().chain(remembered))
    }

    /// Whether the acknowledgement of a write is awaited.
    pub(crate) fn is_writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether the present session may write a position now.
    pub(crate) fn may_attest(&self, want: Want, at: Moment) -> bool {
        self.in_flight.is_none() && self.due_at(want).is_none_or(|due| due <= at)
    }

    /// When the next position may be written; `None`: at once.
    pub(crate) fn due_at(&self, want: Want) -> Option<Moment> {
        let gap = match want {
            Want::Now => return None,
            Want::Events => WRITE_INTERVAL,
            Want::Quiet => KEEPALIVE_WRITE_INTERVAL,
        };
        self.written_at.map(|written| written + gap)
    }

    /// The write of a position; `None` without a session that writes.
    pub(crate) fn attest(
        &mut self,
        attestation: Attestation,
        last: Option<LastTransaction>,
        at: Moment,
    ) -> Option<Write> {
        let present = self.present.as_mut()?;
        present.witness.position = attestation.position();
        present.witness.last = last;
        present.news = Unwritten::None;
        let (key, witness) = (present.key.clone(), present.witness.clone());
        Some(self.write(key, WriteKind::Position(witness, attestation), at))
    }

    /// The next write other than a position: first what the session noted, then the deletion of an
    /// earlier session's key, once a record of this session is in Kafka.
    pub(crate) fn write_rest(&mut self, at: Moment) -> Option<Write> {
        let present = self.present.as_mut().filter(|_| self.in_flight.is_none())?;
        if std::mem::take(&mut present.news) == Unwritten::Some {
            let (key, witness) = (present.key.clone(), present.witness.clone());
            return Some(self.write(key, WriteKind::Record(witness), at));
        }
        if present.stored == Stored::NotYet {
            return None;
        }
        let key = self.outdated.pop_front()?;
        Some(self.write(key, WriteKind::Deletion, at))
    }

    fn write(&mut self, key: Vec<u8>, what: WriteKind, at: Moment) -> Write {
        let value = what.witness().map(Witness::encode);
        failpoint::reached(Failpoint::BeforeWitness);
        self.last_write_number += 1;
        if matches!(what, WriteKind::Position(..)) {
            self.written_at = Some(at);
        }
        self.in_flight = Some(InFlight { number: self.last_write_number, key: key.clone(), what });
        Write { number: self.last_write_number, key, value }
    }

    /// A write is acknowledged. If it was a position, returns the attestation that makes the
    /// position confirmable.
    pub(crate) fn written(&mut self, number: u64) -> Option<Attestation> {
        let in_flight = self.in_flight.take_if(|in_flight| in_flight.number == number)?;
        failpoint::reached(Failpoint::WitnessAcked);
        if let Some(present) = self.present.as_mut().filter(|own| own.key == in_flight.key) {
            present.stored = Stored::Yes;
            if let Some(witness) = in_flight.what.witness()
                && present.vouched != witness.partitions
            {
                present.vouched.clone_from(&witness.partitions);
            }
        }
        match in_flight.what {
            WriteKind::Position(witness, attestation) => {
                self.known = join(self.known.take().into_iter().chain([witness]));
                Some(attestation)
            }
            WriteKind::Record(witness) => {
                let is_gap = |unrecorded: &mut Unrecorded| unrecorded.witness == witness;
                self.unrecorded.take_if(is_gap);
                self.known = join(self.known.take().into_iter().chain([witness]));
                None
            }
            WriteKind::Deletion => None,
        }
    }

    /// The producer is replaced: the write in flight may be stored or not, and will not be
    /// acknowledged.
    pub(crate) fn sink_replaced(&mut self) {
        self.in_flight = None;
        if let Some(present) = &mut self.present {
            present.news = Unwritten::Some;
        }
    }

    /// Notes the partition counts of topics for the session's record. Counts of other topics stay:
    /// those topics may still have records of an earlier session in flight.
    pub(crate) fn note_partitions<'t>(&mut self, topics: impl Iterator<Item = (&'t str, i32)>) {
        let Some(present) = &mut self.present else { return };
        let noted = &mut present.witness.partitions;
        for (name, count) in topics {
            let is_new = noted.get(name) != Some(&count);
            if is_new && (noted.len() < PARTITIONS_MAX || noted.contains_key(name)) {
                noted.insert(name.to_owned(), count);
                present.news = Unwritten::Some;
            }
        }
    }

    /// The partition counts that the next session will certainly find: those in this session's own
    /// record. Records of others do not count: this session deletes them, or another session does
    /// that has lost the slot and has not noticed it yet.
    pub(crate) fn vouched(&self) -> Vouched<'_> {
        let partitions = self.present.as_ref().map(|present| &present.vouched);
        Vouched { partitions, most: PARTITIONS_MAX }
    }
}
