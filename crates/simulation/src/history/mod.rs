//! What was committed, which the records in Kafka are compared with, and how it is made: sessions
//! that write concurrently, savepoints that are rolled back, rows that share a position, commits
//! that begin where the previous one ended.

mod event;
mod standby;

use std::ops::Range;

use relay::Code;

use crate::{
    plan::{DeadLetters, VersionGroup},
    random::Random,
};

pub use event::{CatalogState, CommittedEvent, NO_ORDER, OutboxName, PublicationState, RowKind};
pub use standby::NamedStandby;

/// Aggregate types.
pub const TYPES: [&str; 3] = ["order", "invoice", "refund"];
/// Aggregate ids. The empty one is a key like any other; the hashes of half of them are negative.
pub const IDS: [&str; 4] = ["", "a", "k7", "zebra"];
/// The number of keys: every pair of type and id.
pub const KEYS: usize = TYPES.len() * IDS.len();

const FIRST_LSN: u64 = 1 << 20;
/// Rows of a long transaction: more than any window.
pub const LONG: u64 = 45;
/// Of the keys, so many have most of the events that cannot be delivered.
const POISONED_KEYS: usize = 2;
/// Sessions that write at the same time.
const WRITERS: usize = 3;

/// A committed transaction.
#[derive(Debug, Clone)]
pub struct CommittedTransaction {
    /// Where its commit record starts.
    pub commit_lsn: u64,
    /// The first byte after it.
    pub end_lsn: u64,
    /// Its number.
    pub xid: u32,
    /// The server's clock at the commit, in microseconds: unique among transactions.
    pub committed_at: i64,
    /// Indexes of its events.
    pub events: Range<usize>,
}

#[derive(Debug, Clone)]
struct Row {
    key: usize,
    lsn: u64,
    catalog: CatalogState,
    kind: RowKind,
    is_accepted: bool,
}

/// A database session with an open transaction.
#[derive(Debug, Clone, Default)]
struct Writer {
    rows: Vec<Row>,
    savepoint: Option<usize>,
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct CommitHistory {
    /// In commit order. Events of a history that is lost stay in the list, as not real.
    pub events: Vec<CommittedEvent>,
    /// In commit order.
    pub transactions: Vec<CommittedTransaction>,
    /// The end of WAL.
    pub end_of_wal: u64,
    /// What the standby has of it that the server names, if it names one.
    pub standby: Option<NamedStandby>,
    /// Published events per key so far.
    pub next_in_key: [u64; KEYS],
    /// Published events so far.
    pub serial: u64,
    /// The published events of each key, in commit order.
    pub by_key: [Vec<usize>; KEYS],
    /// The server's clock, in microseconds.
    pub clock: i64,
    xid: u32,
    writers: Vec<Writer>,
    version: VersionGroup,
    /// What becomes of events that cannot be delivered; `None` if they stop the routers.
    dead_letters: Option<DeadLetters>,
    /// The topics whose limit was ever lowered.
    lowered: [bool; TYPES.len()],
}

impl CommitHistory {
    /// An empty history.
    pub fn new(version: VersionGroup, dead_letters: Option<DeadLetters>) -> Self {
        Self {
            events: Vec::new(),
            transactions: Vec::new(),
            end_of_wal: FIRST_LSN,
            standby: None,
            next_in_key: [0; KEYS],
            serial: 0,
            by_key: Default::default(),
            clock: 0,
            xid: 700,
            writers: vec![Writer::default(); WRITERS],
            version,
            dead_letters,
            lowered: [false; TYPES.len()],
        }
    }

    /// One step of a random session: it writes, rolls back to a savepoint, or commits.
    pub fn write(&mut self, random: &mut Random, catalog: CatalogState) {
        let writer = random.index(WRITERS);
        match random.below(16) {
            0..7 => self.insert(writer, 1 + random.below(3), random, catalog, RowKind::Valid),
            7..12 => self.commit(writer, random),
            12 => self.writers[writer].savepoint = Some(self.writers[writer].rows.len()),
            13 => self.rollback_to_savepoint(writer),
            14 => self.writers[writer] = Writer::default(),
            _ => self.write_other_wal(random),
        }
    }

    /// Commits a transaction of its own.
    pub fn write_transaction(
        &mut self,
        rows: u64,
        random: &mut Random,
        catalog: CatalogState,
        kind: RowKind,
    ) {
        self.writers.push(Writer::default());
        let writer = self.writers.len() - 1;
        self.insert(writer, rows, random, catalog, kind);
        self.commit(writer, random);
        self.writers.pop();
    }

    /// Commits a transaction of its own, some rows of which become dead letters: more often those
    /// of a few keys. Writes nothing if no row becomes one.
    pub fn write_poison(&mut self, random: &mut Random, catalog: CatalogState) {
        let kinds: Vec<RowKind> =
            RowKind::POISON.into_iter().filter(|kind| !self.stops_at(*kind)).collect();
        if kinds.is_empty() {
            return;
        }
        self.write_transaction(1 + random.below(4), random, catalog, RowKind::Valid);
        let Some(last) = self.transactions.last() else { return };
        for number in last.events.clone() {
            let event = &mut self.events[number];
            if !random.one_in(3) {
                event.key = random.index(POISONED_KEYS);
            }
            if random.one_in(2) {
                event.kind = kinds[random.index(kinds.len())];
            }
        }
        self.recount();
    }

    /// WAL that holds no events: of another table, another database, a checkpoint.
    pub fn write_other_wal(&mut self, random: &mut Random) {
        self.end_of_wal += 8 * (1 + random.below(4));
    }

    /// Every session rolls back.
    pub fn abort_all(&mut self) {
        self.writers = vec![Writer::default(); WRITERS];
    }

    /// Marks rows of transactions that are still open as accepted as missing, if the publication
    /// leaves them out.
    pub fn accept_open_rows(&mut self) {
        for row in self.writers.iter_mut().flat_map(|writer| &mut writer.rows) {
            row.is_accepted |= row.catalog.publication != PublicationState::Complete;
        }
    }

    /// Marks events whose row was taken out of the table of held events as accepted as missing.
    pub fn accept_lost_rows(&mut self) {
        for event in self.events.iter_mut().filter(|event| event.is_row_lost) {
            event.is_accepted = true;
        }
    }

    /// Every session commits what it has written.
    pub fn commit_all(&mut self, random: &mut Random) {
        for writer in 0..self.writers.len() {
            if !self.writers[writer].rows.is_empty() {
                self.commit(writer, random);
            }
        }
    }

    fn insert(
        &mut self,
        writer: usize,
        rows: u64,
        random: &mut Random,
        catalog: CatalogState,
        kind: RowKind,
    ) {
        // COPY gives many rows one position.
        let is_copy = random.one_in(3);
        let mut lsn = self.end_of_wal;
        self.end_of_wal += 8;
        for _ in 0..rows {
            if !is_copy {
                lsn = self.end_of_wal;
                self.end_of_wal += 8;
            }
            let key = random.index(KEYS);
            self.writers[writer].rows.push(Row { key, lsn, catalog, kind, is_accepted: false });
        }
    }

    fn rollback_to_savepoint(&mut self, writer: usize) {
        let writer = &mut self.writers[writer];
        if let Some(savepoint) = writer.savepoint.take() {
            writer.rows.truncate(savepoint);
        }
    }

    fn commit(&mut self, writer: usize, random: &mut Random) {
        let rows = std::mem::take(&mut self.writers[writer]).rows;
        // Often the commit record starts where the previous one ended.
        let commit_lsn = self.end_of_wal + if random.one_in(3) { 8 } else { 0 };
        let end_lsn = commit_lsn + 8;
        self.end_of_wal = end_lsn;
        self.xid += 1;
        self.clock += 1;
        // Only an old server sends transactions without rows; some have skipped rows alone.
        let is_sent = self.version == VersionGroup::V13To14 || self.version.has_skipped_rows();
        if rows.is_empty() && !is_sent {
            return;
        }
        let first = self.events.len();
        for Row { key, lsn, catalog, kind, is_accepted } in rows {
            let is_ordered = self.is_ordered(kind);
            self.events.push(CommittedEvent {
                key,
                index_in_key: if is_ordered { self.next_in_key[key] } else { NO_ORDER },
                lsn,
                transaction: self.transactions.len(),
                serial: self.serial,
                catalog,
                kind,
                is_real: true,
                is_stored: false,
                is_accepted,
                held: None,
                is_letter: false,
                has_letter_record: false,
                is_free: false,
                is_reopened: false,
                is_row_lost: false,
                is_drop_lost: false,
            });
            if catalog.publication == PublicationState::Complete {
                if is_ordered {
                    self.by_key[key].push(self.events.len() - 1);
                    self.next_in_key[key] += 1;
                }
                self.serial += 1;
            }
        }
        let events = first..self.events.len();
        events.clone().for_each(|number| self.set_free(number));
        let (xid, committed_at) = (self.xid, self.clock);
        self.transactions.push(CommittedTransaction {
            commit_lsn,
            end_lsn,
            xid,
            committed_at,
            events,
        });
    }

    fn is_ordered(&self, kind: RowKind) -> bool {
        kind != RowKind::NullKey || self.dead_letters.is_none()
    }

    /// Whether nothing passes a row of this kind: its class makes no dead letters.
    pub fn stops_at(&self, kind: RowKind) -> bool {
        let Some(code) = kind.code() else { return false };
        self.dead_letters.is_none_or(|letters| !letters.takes(code))
    }

    /// Whether an event with such a cause binds no later event of its key.
    fn frees(&self, code: Code) -> bool {
        self.dead_letters.is_some_and(|letters| letters.frees(code))
    }

    /// An event has, or will have, this cause to become a dead letter.
    pub fn note_cause(&mut self, number: usize, code: Code) {
        let is_free = self.frees(code);
        self.events[number].is_free |= is_free;
    }

    /// A topic takes only small records, from now on or for a while.
    pub fn note_lowered(&mut self, topic: usize) {
        if let Some(lowered) = self.lowered.get_mut(topic) {
            *lowered = true;
        }
        for number in 0..self.events.len() {
            self.set_free(number);
        }
    }

    fn set_free(&mut self, number: usize) {
        let event = &self.events[number];
        let of_kind = event.kind.code().is_some_and(|code| self.frees(code));
        let is_lowered = self.lowered[event.key / IDS.len()] && self.frees(Code::RecordTooLarge);
        self.events[number].is_free |= of_kind || is_lowered;
    }

    /// Whether any event was ever held: then events of a lost history may be left out.
    pub fn has_held_events(&self) -> bool {
        self.dead_letters.is_some()
    }

    /// The transaction whose commit record starts at this position.
    pub fn transaction_at(&self, commit_lsn: u64) -> Option<&CommittedTransaction> {
        let own = self.transactions.get(self.first_from(commit_lsn))?;
        (own.commit_lsn == commit_lsn).then_some(own)
    }

    /// The index of the first transaction that a slot at this position sends.
    pub fn first_from(&self, confirmed: u64) -> usize {
        self.transactions.partition_point(|one| one.commit_lsn < confirmed)
    }

    /// The end of what a walsender may send.
    pub fn sendable_end(&self) -> u64 {
        self.standby.map_or(self.end_of_wal, |standby| standby.received)
    }

    /// The standby receives what there is, unless it is away.
    pub fn feed_standby(&mut self) {
        let end = self.end_of_wal;
        if let Some(standby) = self.standby.as_mut().filter(|standby| !standby.is_away) {
            standby.received = end;
        }
    }

    /// How many transactions end at or before this position.
    pub fn ended_by(&self, position: u64) -> usize {
        self.transactions.partition_point(|one| one.end_lsn <= position)
    }

    /// The serial number of the first published event past this position.
    pub fn serial_past(&self, position: u64) -> u64 {
        let rest = self.transactions.get(self.ended_by(position)..).unwrap_or_default();
        let first = rest.iter().find(|one| !one.events.is_empty());
        first.map_or(self.serial, |one| self.events[one.events.start].serial)
    }

    /// The largest transaction past this position, in events.
    pub fn largest_past(&self, position: u64) -> u64 {
        let rest = self.transactions.get(self.ended_by(position)..).unwrap_or_default();
        let largest = rest.iter().map(|one| one.events.len()).max().unwrap_or(0);
        u64::try_from(largest).expect("a length fits")
    }

    /// Recomputes the counts from the events that are real.
    pub(crate) fn recount(&mut self) {
        self.by_key = Default::default();
        self.next_in_key = [0; KEYS];
        self.serial = 0;
        for number in 0..self.events.len() {
            self.set_free(number);
            let is_ordered = self.is_ordered(self.events[number].kind);
            let event = &mut self.events[number];
            if !event.is_real || !event.is_published() {
                continue;
            }
            self.serial += 1;
            event.index_in_key = NO_ORDER;
            if is_ordered {
                event.index_in_key = self.next_in_key[event.key];
                self.next_in_key[event.key] += 1;
                self.by_key[event.key].push(number);
            }
        }
        self.xid = self.transactions.last().map_or(700, |last| last.xid);
    }

    /// Real events that Kafka does not have, and that nobody has accepted as missing.
    pub fn missing(&self) -> impl Iterator<Item = usize> {
        let missing = |event: &CommittedEvent| event.is_real && !event.is_settled();
        self.events.iter().enumerate().filter(move |(_, event)| missing(event)).map(|(n, _)| n)
    }
}
