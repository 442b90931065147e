//! What was committed, which the records in Kafka are compared with, and how it is made: sessions
//! that write concurrently, savepoints that are rolled back, rows that share a position, commits
//! that begin where the previous one ended.

use std::ops::Range;

use relay::testing::HeldState;

use crate::{plan::VersionGroup, random::Random};

/// Aggregate types.
pub const TYPES: [&str; 3] = ["order", "invoice", "refund"];
/// Aggregate ids. The empty one is a key like any other; the hashes of half of them are negative.
pub const IDS: [&str; 4] = ["", "a", "k7", "zebra"];
/// The number of keys: every pair of type and id.
pub const KEYS: usize = TYPES.len() * IDS.len();

const FIRST_LSN: u64 = 1 << 20;
/// Rows of a long transaction: more than any window.
pub const LONG: u64 = 45;
/// [`CommittedEvent::index_in_key`] of an event that has no key.
pub const NO_ORDER: u64 = u64::MAX;
/// Of the keys, so many have most of the events that cannot be delivered.
const POISONED_KEYS: usize = 2;
/// Sessions that write at the same time.
const WRITERS: usize = 3;

/// What the publication did with a row when the row was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublicationState {
    /// The publication publishes it.
    Complete,
    /// The publication publishes no inserts: the server sends nothing.
    WithoutInserts,
    /// The publication does not have the table: the server sends nothing.
    WithoutTable,
    /// The publication does not exist: the server sends an error, or a warning.
    Missing,
}

/// Whether a row can become a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// It can.
    Valid,
    /// Its key is NULL.
    NullKey,
    /// Its id is NULL.
    NullId,
    /// Its type makes an illegal topic name.
    IllegalTopic,
    /// It is larger than the router reads.
    Oversized,
    /// Its record is larger than its topic takes.
    TooLarge,
    /// The broker refuses its record, as long as nobody removes the cause.
    Refused,
}

impl RowKind {
    /// Those that cannot be delivered as they are.
    pub const POISON: [Self; 6] = [
        Self::NullKey,
        Self::NullId,
        Self::IllegalTopic,
        Self::Oversized,
        Self::TooLarge,
        Self::Refused,
    ];
}

/// The name under which a row of the outbox is sent. The OID is the table's, except of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxName {
    /// The name that the routers are configured with.
    Configured,
    /// Something else.
    Changed,
    /// That of a partition, since the publication was by leaf when the row was written.
    Partition,
}

/// The state of the catalog when a row is written.
#[derive(Debug, Clone, Copy)]
pub struct CatalogState {
    /// What the publication does with rows.
    pub publication: PublicationState,
    /// Shape of the table.
    pub shape: usize,
    /// Its name.
    pub name: OutboxName,
}

impl CatalogState {
    /// The catalog as set-up leaves it.
    pub const NEW: Self =
        Self { publication: PublicationState::Complete, shape: 0, name: OutboxName::Configured };
}

/// A committed row.
#[derive(Debug, Clone)]
pub struct CommittedEvent {
    /// Index of its key, below [`KEYS`].
    pub key: usize,
    /// How many published events of the same key precede it.
    pub index_in_key: u64,
    /// The position of its row; rows may share one, so it orders nothing.
    pub lsn: u64,
    /// Index of its transaction.
    pub transaction: usize,
    /// How many published events of any key precede it.
    pub serial: u64,
    /// The state of the catalog when it was written.
    pub catalog: CatalogState,
    /// Whether it can become a record.
    pub kind: RowKind,
    /// False when a backup was restored that does not contain it.
    pub is_real: bool,
    /// Whether its record is stored in Kafka.
    pub is_stored: bool,
    /// Whether a person has accepted that its record is missing from Kafka.
    pub is_accepted: bool,
    /// The state of its row in the table of held events, if it has one.
    pub held: Option<HeldState>,
    /// Whether the server was restored to a state in which its row had not left the table, or was
    /// not decided about: then it comes again after what followed it.
    pub is_reopened: bool,
    /// Whether the server was restored to a state in which the table had no row of it yet.
    pub is_row_lost: bool,
    /// Whether the server was restored to a state in which nobody had decided yet to drop it.
    pub is_drop_lost: bool,
}

impl CommittedEvent {
    /// Whether its record belongs in Kafka.
    pub fn is_published(&self) -> bool {
        self.catalog.publication == PublicationState::Complete
    }

    /// Whether its record is stored in Kafka, or accepted as missing, or it is in the table of held
    /// events.
    pub fn is_settled(&self) -> bool {
        self.is_stored || self.is_accepted || self.held.is_some()
    }

    /// Whether the later events of its key may be in Kafka: it is there itself, or never will be.
    pub fn is_passed(&self) -> bool {
        self.is_stored || self.is_accepted || self.is_to_be_dropped()
    }

    /// Whether a person has decided to drop it.
    pub fn is_to_be_dropped(&self) -> bool {
        matches!(self.held, Some(HeldState::Dropping | HeldState::Dropped))
    }

    /// Whether it is in the table of held events, and has not left it.
    pub fn is_open(&self) -> bool {
        matches!(self.held, Some(HeldState::Held | HeldState::Requeued | HeldState::Dropping))
    }

    /// Whether it belongs to the order of a key.
    pub fn has_order(&self) -> bool {
        self.index_in_key != NO_ORDER
    }
}

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
    keyless: Keyless,
}

/// What becomes of a row whose key is NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keyless {
    /// Nothing of any key passes it.
    Stops,
    /// It is held by itself, and concerns no key.
    IsHeld,
}

impl CommitHistory {
    /// An empty history.
    pub fn new(version: VersionGroup, keyless: Keyless) -> Self {
        Self {
            events: Vec::new(),
            transactions: Vec::new(),
            end_of_wal: FIRST_LSN,
            next_in_key: [0; KEYS],
            serial: 0,
            by_key: Default::default(),
            clock: 0,
            xid: 700,
            writers: vec![Writer::default(); WRITERS],
            version,
            keyless,
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

    /// Commits a transaction of its own, some rows of which cannot be delivered: more often those
    /// of a few keys.
    pub fn write_poison(&mut self, random: &mut Random, catalog: CatalogState) {
        self.write_transaction(1 + random.below(4), random, catalog, RowKind::Valid);
        let Some(last) = self.transactions.last() else { return };
        for number in last.events.clone() {
            let event = &mut self.events[number];
            if !random.one_in(3) {
                event.key = random.index(POISONED_KEYS);
            }
            if random.one_in(2) {
                event.kind = RowKind::POISON[random.index(RowKind::POISON.len())];
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
        kind != RowKind::NullKey || self.keyless == Keyless::Stops
    }

    /// Whether any event was ever held: then events of a lost history may be left out.
    pub fn has_held_events(&self) -> bool {
        self.keyless == Keyless::IsHeld
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
