//! A server: transactions with savepoints, outbox tables with partitions, a publication, a slot,
//! WAL, and what the schema `outbox_router` has.

use std::collections::{BTreeMap, BTreeSet};

use relay::{
    Lsn,
    delivered::{FullXid, compared::TimeColumn},
    handover::PastRun,
    source::History,
    witness::Notes,
};

use super::slot::{Creation, Holder, Slot};
use crate::xid;

/// How many outbox tables there are.
pub const TABLES: usize = 2;
/// The one that is partitioned; its first partition.
pub const PARTITIONED: usize = 0;
const FIRST_PART: u32 = 201;
/// Half of the ids that a row's 32 bits can count.
const HALF: u64 = 1 << 31;
const DAY: i64 = 86_400;

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// A record.
    Fine,
    /// Nothing: it cannot become a record.
    Bad,
    /// Nothing: `where` leaves it out.
    Filtered,
}

/// A row, committed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Unique over all servers and histories.
    pub row: u64,
    /// The outbox.
    pub table: usize,
    /// The partition that has it.
    pub part: Option<u32>,
    /// The id of its event; other rows may have it, too.
    pub id: u64,
    /// The topic to which it goes.
    pub topic: u8,
    /// Who wrote it last.
    pub xmin: FullXid,
    /// How often it was written.
    pub writes: u32,
    /// What its column of a time says, in the unit of that column.
    pub says: Option<i64>,
    /// The moment that the column means; `None` where an application has made it up, or no column
    /// says it.
    pub made: Option<i64>,
    /// Its fate as it is now.
    pub fit: Fit,
    /// Its fate as it was inserted.
    pub inserted: Fit,
    /// Whether pgoutput sends it.
    pub is_published: bool,
    /// Its mark says that it is published.
    pub is_marked: bool,
}

impl Row {
    /// Whether a worker sends it, or leaves it out.
    pub fn is_pending(&self) -> bool {
        !self.is_marked && self.fit != Fit::Bad
    }
}

/// A row is updated.
#[derive(Debug, Clone, Copy)]
pub struct Update {
    /// The row.
    pub row: u64,
    /// The id under which it is written.
    pub by: u64,
    /// Whether `where` leaves it out from then on.
    pub filters: bool,
}

/// A transaction that runs.
#[derive(Debug, Clone)]
pub struct Running {
    /// Its own id, then those of its savepoints; none before it writes.
    pub ids: Vec<u64>,
    /// When it began.
    pub began: i64,
    /// What it has inserted.
    pub rows: Vec<Row>,
    /// Rows that it has updated.
    pub updates: Vec<Update>,
    /// It survives its session.
    pub is_prepared: bool,
}

/// A transaction with events, in WAL.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Where its commit record begins.
    pub at: u64,
    /// Where it ends.
    pub end: u64,
    /// Its id.
    pub xid: u64,
    /// When it was.
    pub clock: i64,
    /// What pgoutput sends.
    pub sent: Vec<Row>,
}

/// A line of `outbox_router.held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The row.
    pub row: Row,
    /// What has become of it.
    pub state: HeldState,
}

/// What has become of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldState {
    /// A person has to decide.
    Open,
    /// A person has dropped it.
    Dropped,
    /// A person has mended it, and it was sent.
    Delivered,
}

/// Which source the tables have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switched {
    /// Workers give back what they hold, and rows that are older than a slot are sent.
    Closing,
    /// They were sent.
    Sent,
    /// The stream.
    Streamed,
    /// What the stream has delivered is marked; the slot is not needed any more.
    Marked,
    /// They are polled.
    Polled,
}

/// A server.
#[derive(Debug, Clone)]
pub struct Database {
    /// Which one.
    pub history: History,
    /// The timelines before, each with the position at which the next one begins.
    pub timelines: Vec<(u32, u64)>,
    /// The next transaction id.
    pub next_xid: u64,
    /// The end of WAL.
    pub wal: u64,
    /// The transactions that run.
    pub running: Vec<Running>,
    /// Committed rows.
    pub rows: Vec<Row>,
    /// What was committed since the server began, in order.
    pub log: Vec<Commit>,
    /// Positions at which WAL names the oldest transaction that runs.
    pub(super) running_at: Vec<(u64, u64)>,
    /// The slot.
    pub slot: Option<Slot>,
    /// A slot that is being made.
    pub creation: Option<Creation>,
    /// The entries of the publication, by table: another one each time it is added.
    pub entries: BTreeMap<usize, u32>,
    /// The partitions that are attached, and who attached them.
    pub parts: BTreeMap<u32, u32>,
    /// Partitions that were detached, and are tables of their own.
    pub detached: BTreeSet<u32>,
    /// Row security hides rows from the role of the commands.
    pub hides: bool,
    /// The last number of each table's sequence.
    pub numbers: [u64; TABLES],
    /// Dead letters.
    pub held: Vec<Held>,
    /// Rows that a person has skipped: table, id of the event, and row.
    pub skipped: Vec<(usize, u64, u64)>,
    /// Rows that a person has left out of what was sent.
    pub left_out: Vec<Row>,
    /// How often rows were noted as left out, or skipped.
    pub note_writes: u64,
    /// A run of `recover` that did not come to its end.
    pub has_run: bool,
    /// The last run of a back-fill.
    pub fill: Option<PastRun>,
    /// Rows that are older than the slot, and still polled: `outbox_router.switch_row`.
    pub noted: BTreeSet<u64>,
    /// The command that has the lock of runs.
    pub lock: Option<u32>,
    /// Whether the tables are streamed.
    pub switched: Switched,
    /// The next OID.
    pub next_oid: u32,
}

/// What a column says of a moment, in a zone that is so many seconds east of UTC.
pub fn says(column: TimeColumn, moment: i64, zone: i64) -> i64 {
    match column {
        TimeColumn::Zoned => moment,
        TimeColumn::Unzoned => moment + zone,
        TimeColumn::Day => (moment + zone).div_euclid(DAY),
    }
}

impl Database {
    /// A server with two outboxes in a publication.
    pub fn new(first_xid: u64) -> Self {
        let mut database = Self {
            history: History { system_id: "1".to_owned(), timeline: 1 },
            timelines: Vec::new(),
            next_xid: first_xid,
            wal: 1_000,
            running: Vec::new(),
            rows: Vec::new(),
            log: Vec::new(),
            running_at: Vec::new(),
            slot: None,
            creation: None,
            entries: BTreeMap::new(),
            // By a transaction whose id no other one has for a long time.
            parts: BTreeMap::from([(
                FIRST_PART,
                FullXid::from_u64(first_xid - 1).of_row().as_u32(),
            )]),
            detached: BTreeSet::new(),
            hides: false,
            numbers: [0; TABLES],
            held: Vec::new(),
            skipped: Vec::new(),
            left_out: Vec::new(),
            note_writes: 0,
            has_run: false,
            fill: None,
            noted: BTreeSet::new(),
            lock: None,
            switched: Switched::Streamed,
            next_oid: 300,
        };
        (0..TABLES).for_each(|table| database.publish(table));
        database
    }

    /// A new id.
    pub fn assign(&mut self) -> u64 {
        xid::assign(&mut self.next_xid)
    }

    /// Transactions of others come and go. PostgreSQL gives out no id that is too far from the
    /// oldest one in use.
    pub fn others(&mut self, count: u64) {
        let limit = (self.snapshot_xmin() + HALF - 3).max(self.next_xid);
        self.next_xid = (self.next_xid + count).min(limit);
        self.wal += 10;
    }

    /// `pg_snapshot_xmin(pg_current_snapshot())`.
    pub fn snapshot_xmin(&self) -> u64 {
        let tops = self.running.iter().filter_map(|running| running.ids.first());
        tops.copied().min().unwrap_or(self.next_xid)
    }

    /// Notes a row that a person leaves out of what is sent.
    pub fn leave_out(&mut self, row: Row) {
        self.left_out.push(row);
        self.note_writes += 1;
        self.wal += 10;
    }

    /// What the witness is told of such rows.
    pub fn notes(&self) -> Notes {
        Notes {
            any_left_out: !self.left_out.is_empty(),
            by: Lsn::from_u64(self.wal),
            writes: self.note_writes,
        }
    }

    /// Adds a table to the publication.
    pub fn publish(&mut self, table: usize) {
        if !self.entries.contains_key(&table) {
            let oid = self.new_oid();
            self.entries.insert(table, oid);
            self.wal += 10;
        }
    }

    /// Whether statements on the outbox reach a row.
    pub fn reaches(&self, row: &Row) -> bool {
        row.part.is_none_or(|part| self.parts.contains_key(&part))
    }

    /// The rows of an outbox that statements see.
    pub fn rows_of(&self, table: usize) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.table == table && self.reaches(row))
    }

    /// Makes another partition, which takes the rows of the present.
    pub fn add_part(&mut self, part: u32) {
        let by = FullXid::from_u64(self.assign()).of_row().as_u32();
        self.detached.remove(&part);
        self.parts.insert(part, by);
    }

    /// An OID that nothing has had.
    pub fn new_oid(&mut self) -> u32 {
        self.next_oid += 1;
        self.next_oid
    }

    /// Ends a transaction: its rows are there, and its commit in WAL.
    pub fn commit(&mut self, index: usize, clock: i64) {
        let Running { ids, rows, updates, .. } = self.running.remove(index);
        let Some(xid) = ids.first().copied() else { return };
        let at = self.wal;
        self.wal += 10;
        let sent: Vec<Row> = rows.iter().copied().filter(|row| row.is_published).collect();
        if !sent.is_empty() {
            self.log.push(Commit { at, end: self.wal, xid, clock, sent });
        }
        self.rows.extend(rows);
        // A polled row is an event as it is when it is read, and so is, for a switch that has
        // looked, what commits later.
        let is_held = self.slot.is_some_and(|slot| matches!(slot.holder, Some(Holder::Command(_))));
        let is_streamed = self.switched == Switched::Streamed && !is_held;
        for Update { row, by, filters } in updates {
            if let Some(row) = self.rows.iter_mut().find(|known| known.row == row) {
                row.xmin = FullXid::from_u64(by);
                row.writes += 1;
                if filters && is_streamed && row.fit == Fit::Fine {
                    row.fit = Fit::Filtered;
                }
                // A person, or the application, wants it sent again.
                row.is_marked = false;
            }
        }
        self.end_waits();
    }

    /// A prepared transaction has one outcome, whatever branch of its history the server is on: one
    /// that was rolled back on the branch that is left does not commit on this one.
    pub fn settle_prepared_as(&mut self, left: &Self) {
        let rows = left.running.iter().flat_map(|running| &running.rows).chain(&left.rows);
        let known: BTreeSet<u64> = rows.map(|row| row.row).collect();
        self.running.retain(|running| running.rows.iter().all(|row| known.contains(&row.row)));
    }

    /// The transaction ends without effect.
    pub fn roll_back(&mut self, index: usize) {
        self.running.remove(index);
        self.end_waits();
    }

    /// Recovers from a crash. Ids that no WAL has are given again; those of the model are all in
    /// WAL.
    pub fn crash(&mut self) {
        self.lose_sessions();
        self.begin_to_write();
    }

    /// Ends every connection, and forgets what is not saved.
    pub fn lose_sessions(&mut self) {
        self.running.retain(|running| running.is_prepared);
        self.creation = None;
        self.lock = None;
        if let Some(slot) = &mut self.slot {
            (slot.confirmed, slot.catalog_xmin) = slot.saved;
            slot.holder = None;
        }
    }

    /// The end of recovery is a record of its own. A standby writes none before it is promoted: WAL
    /// up to the switch point is its primary's.
    pub fn begin_to_write(&mut self) {
        self.wal += 10;
    }
}
