//! What this process knows of the witness, and when it writes it.
//!
//! One write is in flight at a time. A position is written as often as the window needs it, else at
//! most twice a second, once a second where only keepalives moved it, and not at all while nothing
//! moves.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use pgoutput::Lsn;

use super::{
    LastTransaction, Witness, acceptance::Changed, combine::join, key, record::PARTITIONS_MAX,
};
use crate::{
    clock::Moment,
    failpoint::{self, Failpoint},
    failure::Failure,
    progress::{
        ledger::{Attestation, Evidence},
        ticket::SessionId,
    },
    protocol::{StateRead, StateRecord, WitnessSettings, Write},
    routing::topics::Vouched,
    source::{Gap, Kept},
    witness::combine,
};

mod gaps;
mod unrecorded;

use unrecorded::{Opened, Unrecorded};

/// Between two writes, unless the window needs one sooner. A commit that comes while a write is
/// under way waits a little longer for its own acknowledgement: a write takes a millisecond or two,
/// so with two of them a second that befalls less than one commit in a hundred at any rate, and the
/// 99th percentile does not move. Ten of them moved it.
const GAP: Duration = Duration::from_millis(500);
/// The same where no event was acknowledged since.
const GAP_WITHOUT_EVENTS: Duration = Duration::from_secs(1);

/// How much a write is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Want {
    /// Only keepalives moved the position.
    Quiet,
    /// Events were acknowledged.
    Events,
    /// Somebody waits for it: the window, the server, a process that stops.
    Now,
}

/// See the module's documentation.
pub(crate) struct Keeper {
    settings: Option<WitnessSettings>,
    /// What counts, by everything that was read and written.
    known: Option<Witness>,
    /// The records as they were last read.
    read: Vec<StateRecord>,
    /// What the present session writes.
    present: Option<Box<Present>>,
    remembered: Option<Box<Remembered>>,
    /// A gap that is not yet in Kafka.
    unrecorded: Option<Unrecorded>,
    opened: Opened,
    in_flight: Option<InFlight>,
    written_at: Option<Moment>,
    numbers: u64,
    /// Keys of sessions before the present one.
    outdated: VecDeque<Vec<u8>>,
}

/// What a session had acknowledged when it ended.
struct Remembered {
    witness: Witness,
    /// The keys that there were then. A router that has had the slot since may have sent part of it
    /// again, after what was sent here: the rest has to follow that. It writes its record before it
    /// produces anything.
    keys: BTreeSet<Vec<u8>>,
}

struct Present {
    key: Vec<u8>,
    witness: Witness,
    /// The partition counts in the record that Kafka has under the key.
    vouched: BTreeMap<String, i32>,
    /// Whether something other than the position is not in Kafka yet.
    news: News,
    stored: Stored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum News {
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
    what: What,
}

enum What {
    Position(Witness, Attestation),
    Record(Witness),
    Deletion,
}

/// What others have written while a session streams.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    /// Nothing that matters to it.
    Nothing,
    /// Gaps that this session knows nothing of.
    Gaps(Vec<Gap>),
    /// Something that this session's record is not part of: everything has to be judged again.
    AnotherHistory,
}

impl What {
    /// What is written; `None` where a key is deleted.
    fn witness(&self) -> Option<&Witness> {
        match self {
            Self::Position(witness, _) | Self::Record(witness) => Some(witness),
            Self::Deletion => None,
        }
    }
}

/// Whether the records are those of the last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    Unchanged,
    Changed,
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
            numbers: 0,
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

    /// Takes note of what the state topic holds.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn read(&mut self, read: StateRead) -> Result<Since, Failure> {
        let combined = combine(&read.records)?;
        let since = if read.records == self.read { Since::Unchanged } else { Since::Changed };
        let is_new = |record: &StateRecord, keys: &BTreeSet<_>| !keys.contains(&record.key);
        self.remembered
            .take_if(|left| read.records.iter().any(|record| is_new(record, &left.keys)));
        self.read = read.records;
        // What this process has written counts although the topic may have been deleted meanwhile.
        self.known = join(self.known.take().into_iter().chain(combined));
        self.reopen();
        Ok(since)
    }

    /// Takes note of what the state topic holds while a session streams.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn look(&mut self, read: StateRead) -> Result<Seen, Failure> {
        let StateRead { cluster, records } = read;
        let combined = combine(&records)?;
        let Some(present) = &mut self.present else { return Ok(Seen::Nothing) };
        if !cluster.is_empty() && cluster != present.witness.cluster {
            return Ok(Seen::AnotherHistory);
        }
        // Somebody has deleted it, or the topic.
        if present.stored == Stored::Yes && !records.iter().any(|record| record.key == present.key)
        {
            present.news = News::Some;
        }
        self.read = records;
        let Some(known) = join(self.known.take().into_iter().chain(combined)) else {
            return Ok(Seen::Nothing);
        };
        // A promotion begins a generation, too: a gap may be of the one that this session has
        // begun.
        let seen = match (known.generation.cmp(&present.witness.generation), &known.gaps[..]) {
            // It has held the slot after this session.
            (Ordering::Equal, []) if known.holder() > present.witness.holder() => {
                Seen::AnotherHistory
            }
            (Ordering::Less, _) | (Ordering::Equal, []) => Seen::Nothing,
            (Ordering::Equal | Ordering::Greater, gaps @ [_, ..]) => Seen::Gaps(gaps.to_vec()),
            (Ordering::Greater, []) => Seen::AnotherHistory,
        };
        if known.generation == present.witness.generation
            && present.witness.take_over_acceptances(&known) == Changed::Yes
        {
            present.news = News::Some;
        }
        self.known = Some(known);
        Ok(seen)
    }

    /// A session begins, and will write this.
    pub(crate) fn begin(&mut self, id: SessionId, sessions: u64, witness: Witness) {
        let Some(settings) = &self.settings else {
            self.known = Some(witness);
            return;
        };
        let key = key::of_session(&settings.pipeline, &settings.process, sessions, id);
        self.outdated = self.read.iter().map(|record| record.key.clone()).collect();
        self.outdated.extend(self.present.take().map(|present| present.key));
        self.outdated.retain(|other| *other != key);
        let (vouched, news, stored) = (BTreeMap::new(), News::Some, Stored::NotYet);
        self.present = Some(Box::new(Present { key, witness, vouched, news, stored }));
    }

    /// The source is as it must be, at this moment.
    pub(crate) fn see(&mut self, see: impl FnOnce(&mut Witness)) {
        match (&mut self.present, &mut self.known) {
            (Some(present), _) => see(&mut present.witness),
            (None, Some(known)) if self.settings.is_none() => see(known),
            (None, _) => {}
        }
    }

    /// A session has ended, with everything before this position acknowledged. The next one of this
    /// process need not send that again, although the state topic does not say it yet.
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

    /// What counts for the next session of this process.
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
            Want::Events => GAP,
            Want::Quiet => GAP_WITHOUT_EVENTS,
        };
        self.written_at.map(|written| written + gap)
    }

    /// Writes a position.
    pub(crate) fn attest(
        &mut self,
        attestation: Attestation,
        last: Option<LastTransaction>,
        at: Moment,
    ) -> Option<Write> {
        let present = self.present.as_mut()?;
        present.witness.position = attestation.position();
        present.witness.last = last;
        present.news = News::None;
        let (key, witness) = (present.key.clone(), present.witness.clone());
        Some(self.write(key, What::Position(witness, attestation), at))
    }

    /// Writes what a session found, then deletes the keys of those before it: its own record says
    /// at least as much.
    pub(crate) fn write_rest(&mut self, at: Moment) -> Option<Write> {
        let present = self.present.as_mut().filter(|_| self.in_flight.is_none())?;
        if std::mem::take(&mut present.news) == News::Some {
            let (key, witness) = (present.key.clone(), present.witness.clone());
            return Some(self.write(key, What::Record(witness), at));
        }
        if present.stored == Stored::NotYet {
            return None;
        }
        let key = self.outdated.pop_front()?;
        Some(self.write(key, What::Deletion, at))
    }

    fn write(&mut self, key: Vec<u8>, what: What, at: Moment) -> Write {
        let value = what.witness().map(Witness::encode);
        failpoint::reached(Failpoint::BeforeWitness);
        self.numbers += 1;
        if matches!(what, What::Position(..)) {
            self.written_at = Some(at);
        }
        self.in_flight = Some(InFlight { number: self.numbers, key: key.clone(), what });
        Write { number: self.numbers, key, value }
    }

    /// A write is acknowledged. What may be told from now on, if it was a position.
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
            What::Position(witness, attestation) => {
                self.known = join(self.known.take().into_iter().chain([witness]));
                Some(attestation)
            }
            What::Record(witness) => {
                let is_gap = |unrecorded: &mut Unrecorded| unrecorded.witness == witness;
                self.unrecorded.take_if(is_gap);
                self.known = join(self.known.take().into_iter().chain([witness]));
                None
            }
            What::Deletion => None,
        }
    }

    /// The producer is replaced: what was in flight may be stored or not, and is not heard of
    /// again.
    pub(crate) fn sink_replaced(&mut self) {
        self.in_flight = None;
        if let Some(present) = &mut self.present {
            present.news = News::Some;
        }
    }

    /// What a session writes about partitions, if it writes at all. Topics that it has not met yet
    /// may still have records of an earlier one on their way: what is known of them stays.
    pub(crate) fn note_partitions<'t>(&mut self, topics: impl Iterator<Item = (&'t str, i32)>) {
        let Some(present) = &mut self.present else { return };
        let noted = &mut present.witness.partitions;
        for (name, count) in topics {
            let is_new = noted.get(name) != Some(&count);
            if is_new && (noted.len() < PARTITIONS_MAX || noted.contains_key(name)) {
                noted.insert(name.to_owned(), count);
                present.news = News::Some;
            }
        }
    }

    /// The partition counts that the next session will find. What others have written does not
    /// count: this session deletes it, or one that has lost the slot and does not know it yet.
    pub(crate) fn vouched(&self) -> Vouched<'_> {
        let partitions = self.present.as_ref().map(|present| &present.vouched);
        Vouched { partitions, most: PARTITIONS_MAX }
    }
}
