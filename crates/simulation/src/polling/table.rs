//! The polled tables: rows of transactions that stay open while later ones commit, their marks, and
//! the three statements that read and write them. All by the server's clock, and all or nothing.

use std::{collections::BTreeSet, time::Duration};

use relay::{
    HoldKeys, Moment, PgTimestamp,
    delivered::{RowAt, RowVersion, ServerSession},
    polling::{
        Claimed, FetchRequest, Fetched, More, PendingRow, RowId, RowKey, RowOutcome, SettleRequest,
        Settled, WaitsKept, Written,
    },
};

use super::shape::{self, Poison};

/// How the tables are marked.
#[derive(Debug, Clone, Copy)]
pub struct Marks {
    /// Where waits are kept.
    pub waits: WaitsKept,
    /// Whether reading claims rows.
    pub claimed: Claimed,
    /// Whether later rows of a key wait for a row that cannot be delivered.
    pub hold: HoldKeys,
    /// For how long a row that was claimed is left to the worker that claimed it.
    pub lock: Duration,
}

/// What the marks of a row say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// To be delivered.
    Pending,
    /// Claimed by a process, until then.
    Processing(u64, Moment),
    /// To be tried again, then.
    Waiting(Moment),
    /// Abandoned, until a person requeues it.
    Abandoned,
    /// Delivered.
    Published,
}

/// A row. Its number is its place in [`PolledTables::rows`], by which each table is ordered.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its table.
    pub table: usize,
    /// Its key, as long as it is not poisoned by having none.
    pub key: u64,
    /// Why it cannot be delivered.
    pub poison: Option<Poison>,
    /// The number of its commit; `None` before, and if it was rolled back.
    pub commit: Option<u64>,
    /// The commit from which on it has its key: its own, or that of a person who gave it one.
    pub keyed: Option<u64>,
    /// Whether a person has deleted it.
    pub is_deleted: bool,
    /// Why it could not be delivered when it was written.
    pub first_poison: Option<Poison>,
    /// Its marks.
    pub state: RowState,
    /// How often it could not be delivered.
    pub attempts: u32,
    /// The transaction that wrote it last, whoever that was.
    pub xmin: u32,
    /// How often somebody else than a worker has written it since its insert. Each time it is
    /// another event.
    pub content: u64,
}

fn row_id(number: usize) -> RowId {
    RowId([Box::from(number.to_string())].into())
}

impl Row {
    /// Its key as SQL has it.
    pub fn row_key(&self) -> RowKey {
        let key = (self.poison != Some(Poison::NullKey)).then_some(self.key);
        key.map(|key| shape::key_text(self.table, key).into())
    }

    /// Its shard.
    pub fn shard(&self) -> u32 {
        shape::shard_of(self.row_key().as_deref())
    }

    /// Whether it has had its key since it was written: otherwise later rows of the key are bound
    /// by nothing.
    pub fn had_key(&self) -> bool {
        self.first_poison != Some(Poison::NullKey)
    }

    /// Whether somebody else than a worker has written it once more.
    pub fn is_changed(&self) -> bool {
        self.content > 0
    }

    /// Whether it is there for everybody.
    pub fn is_visible(&self) -> bool {
        self.commit.is_some() && !self.is_deleted
    }
}

/// See the module's header.
#[derive(Debug)]
pub struct PolledTables {
    marks: Marks,
    rows: Vec<Row>,
    /// The rows of each open transaction.
    open: Vec<Vec<usize>>,
    commits: u64,
    /// Transactions that have written something.
    xids: u32,
}

impl PolledTables {
    /// Empty tables.
    pub fn new(marks: Marks) -> Self {
        Self { marks, rows: Vec::new(), open: Vec::new(), commits: 0, xids: 0 }
    }

    /// Every row that was ever written.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// How many transactions are open.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Begins a transaction.
    pub fn begin(&mut self) {
        self.open.push(Vec::new());
    }

    /// Writes a row in an open transaction.
    pub fn write(&mut self, transaction: usize, table: usize, key: u64, poison: Option<Poison>) {
        self.open[transaction].push(self.rows.len());
        self.xids += 1;
        self.rows.push(Row {
            table,
            key,
            poison,
            commit: None,
            keyed: None,
            is_deleted: false,
            first_poison: poison,
            state: RowState::Pending,
            attempts: 0,
            xmin: self.xids,
            content: 0,
        });
    }

    /// Ends a transaction with a commit.
    pub fn commit(&mut self, transaction: usize) {
        self.commits += 1;
        for row in self.open.swap_remove(transaction) {
            let row = &mut self.rows[row];
            row.commit = Some(self.commits);
            row.keyed = row.had_key().then_some(self.commits);
        }
    }

    /// Ends a transaction without.
    pub fn roll_back(&mut self, transaction: usize) {
        self.open.swap_remove(transaction);
    }

    /// The statement that reads pending rows for a process.
    pub fn fetch(&mut self, request: &FetchRequest, process: u64, now: Moment) -> Fetched {
        let held = self.held_keys(request.table.0, now);
        let is_wanted = |row: &Row| {
            row.is_visible()
                && row.table == request.table.0
                && is_pending(row.state, now)
                && request.shards.contains(row.shard())
                && !held.contains(&row.row_key())
        };
        let is_left = |number: usize| {
            request.passed_over.contains(&row_id(number), &self.rows[number].row_key())
        };
        let wanted =
            (0..self.rows.len()).filter(|row| is_wanted(&self.rows[*row]) && !is_left(*row));
        let wanted: Vec<usize> = wanted.take(request.limit).collect();
        if self.marks.claimed == Claimed::Yes {
            let until = now + self.marks.lock;
            self.xids += 1;
            for row in &wanted {
                self.rows[*row].state = RowState::Processing(process, until);
                self.rows[*row].xmin = self.xids;
            }
        }
        let more = if wanted.len() == request.limit { More::Maybe } else { More::No };
        let rows = wanted.into_iter().map(|row| self.pending_row(row)).collect();
        let session = ServerSession::default();
        Fetched { rows, more, claimed: self.marks.claimed, session }
    }

    /// The transaction that writes what became of rows.
    ///
    /// Where another worker has one of the shards by now (`written`), only what is given back is
    /// written: that worker delivers these rows with all that follows them. Where the connection is
    /// lost on which they were read, nothing is.
    pub fn settle(
        &mut self,
        request: &SettleRequest,
        process: u64,
        written: Written,
        now: Moment,
    ) -> Settled {
        let waits = self.marks.waits;
        let mut published = 0;
        let is_written = written == Written::Yes;
        self.xids += 1;
        let xmin = self.xids;
        for sent in request.published.iter().filter(|_| is_written) {
            if let Some(row) = self.own_row(sent.row(), process) {
                row.state = RowState::Published;
                row.xmin = xmin;
                published += 1;
            }
        }
        for failed in request.failed.iter().filter(|_| is_written) {
            let row = RowAt { id: failed.id.clone(), version: failed.version };
            let Some(row) = self.own_row(&row, process) else { continue };
            row.xmin = xmin;
            row.attempts = failed.attempts;
            row.state = match failed.outcome {
                RowOutcome::Abandon => RowState::Abandoned,
                RowOutcome::Retry(after) if waits == WaitsKept::InTable => {
                    RowState::Waiting(now + after)
                }
                RowOutcome::Retry(_) => RowState::Pending,
            };
        }
        for released in request.released.iter().filter(|_| written != Written::SessionLost) {
            if let Some(row) = self.own_row(released, process)
                && let RowState::Processing(..) = row.state
            {
                row.state = RowState::Pending;
                row.xmin = xmin;
            }
        }
        Settled { written, published }
    }

    /// A person mends a row that cannot be delivered, and requeues it.
    pub fn mend(&mut self, row: usize) {
        self.commits += 1;
        let mended = &mut self.rows[row];
        mended.poison = None;
        mended.keyed.get_or_insert(self.commits);
        self.update(row);
        self.requeue(row);
    }

    /// Somebody writes another event into a row, and leaves its marks as they are.
    pub fn update(&mut self, row: usize) {
        self.xids += 1;
        let row = &mut self.rows[row];
        row.xmin = self.xids;
        row.content += 1;
    }

    /// A crash has lost what was written into a row last, and somebody writes another event into
    /// it, in a transaction that gets the number of the lost one.
    pub fn write_under_lost_number(&mut self, row: usize) {
        self.rows[row].content += 1;
    }

    /// The same as [`Self::update`], and the row is to be delivered, whatever its marks have said.
    pub fn upsert(&mut self, row: usize) {
        self.update(row);
        let row = &mut self.rows[row];
        row.state = RowState::Pending;
        row.attempts = 0;
    }

    /// A person requeues an abandoned row.
    pub fn requeue(&mut self, row: usize) {
        if let RowState::Abandoned | RowState::Waiting(_) = self.rows[row].state {
            self.upsert(row);
        }
    }

    /// A person deletes a row.
    pub fn delete(&mut self, row: usize) {
        self.rows[row].is_deleted = true;
    }

    /// The row that a statement names.
    pub fn number(id: &RowId) -> usize {
        id.0[0].parse().expect("ids are numbers")
    }

    /// The keys that wait for one of their rows.
    fn held_keys(&self, table: usize, now: Moment) -> BTreeSet<RowKey> {
        if self.marks.hold == HoldKeys::No {
            return BTreeSet::new();
        }
        let waits = |row: &&Row| {
            row.is_visible()
                && row.table == table
                && match row.state {
                    RowState::Abandoned => true,
                    RowState::Processing(_, until) | RowState::Waiting(until) => until > now,
                    RowState::Pending | RowState::Published => false,
                }
        };
        self.rows.iter().filter(waits).map(Row::row_key).collect()
    }

    /// A row that is to be delivered still, as it was read, and that no other process has taken.
    fn own_row(&mut self, read: &RowAt, process: u64) -> Option<&mut Row> {
        let row = &mut self.rows[Self::number(&read.id)];
        let is_own = match row.state {
            RowState::Pending | RowState::Waiting(_) => true,
            RowState::Processing(by, _) => by == process,
            RowState::Abandoned | RowState::Published => false,
        };
        let is_as_read = read.is_still(RowVersion::of_xmin(row.xmin));
        (is_own && is_as_read && row.is_visible()).then_some(row)
    }

    fn pending_row(&self, number: usize) -> PendingRow {
        let row = &self.rows[number];
        let insert = shape::insert(row.table, (number, row.content), row.key, row.poison);
        PendingRow {
            id: row_id(number),
            version: RowVersion::of_xmin(row.xmin),
            key: row.row_key(),
            bytes: insert.len(),
            insert,
            attempts: match self.marks.waits {
                WaitsKept::InTable => row.attempts,
                WaitsKept::InMemory => 0,
            },
            at: PgTimestamp::from_micros(0),
        }
    }
}

fn is_pending(state: RowState, now: Moment) -> bool {
    match state {
        RowState::Pending => true,
        RowState::Processing(_, until) | RowState::Waiting(until) => until <= now,
        RowState::Abandoned | RowState::Published => false,
    }
}
