//! A model of the transactions of a PostgreSQL server: which ids run, what is in WAL, what a crash
//! leaves. Rows are judged in it by the rule of this module, or by a wrong one.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{prelude::*, sample::Index};

use pgoutput::Lsn;

use super::{
    xid::{FIRST_NORMAL, HALF},
    *,
};

/// What happens next. An index chooses one of the transactions that run.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Begin,
    Savepoint(Index),
    Insert(Index),
    /// The transaction survives a crash from now on.
    Prepare(Index),
    /// The commit record is written; others still see the transaction as running.
    WriteCommit(Index),
    /// A transaction whose commit record is written is not running any more.
    Leave(Index),
    Abort(Index),
    /// Other transactions come and go.
    OtherTransactions(u32),
    Flush,
    /// The slot confirms up to one of the commits.
    Confirm(Index),
    ReadFirst,
    ReadSecond,
    Crash,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let any = any::<Index>;
    prop_oneof![
        3 => Just(Step::Begin),
        2 => any().prop_map(Step::Savepoint),
        5 => any().prop_map(Step::Insert),
        1 => any().prop_map(Step::Prepare),
        3 => any().prop_map(Step::WriteCommit),
        3 => any().prop_map(Step::Leave),
        1 => any().prop_map(Step::Abort),
        1 => prop_oneof![1u32..9, (1u32 << 29)..(1 << 30)].prop_map(Step::OtherTransactions),
        2 => Just(Step::Flush),
        3 => any().prop_map(Step::Confirm),
        3 => Just(Step::ReadFirst),
        3 => Just(Step::ReadSecond),
        1 => Just(Step::Crash),
    ]
}

/// By which rule rows are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Right,
    /// What the snapshot does not list as running has ended.
    VisibleInSnapshot,
    /// Horizons outlive a crash of the server.
    KeptAcrossCrash,
    /// The position is read before the snapshot is taken.
    PositionFirst,
    /// The age of the horizon is not looked at.
    HorizonOfAnyAge,
}

#[derive(Debug, Default)]
struct Transaction {
    /// Its own id, then those of its savepoints.
    ids: Vec<u64>,
    /// The ids that its rows have.
    rows: Vec<u64>,
    /// Where PREPARE is in WAL.
    prepared: Option<u64>,
    /// Where the commit ends in WAL.
    commit: Option<u64>,
}

/// A row that every statement sees from now on.
#[derive(Debug, Clone, Copy)]
struct VisibleRow {
    id: u64,
    commit: u64,
}

#[derive(Debug, Clone)]
struct Snapshot {
    xmin: u64,
    xmax: u64,
    running: BTreeSet<u64>,
    lsn: u64,
}

#[derive(Debug)]
pub(super) struct Model {
    rule: Rule,
    next: u64,
    wal: u64,
    flushed: u64,
    confirmed: u64,
    running: BTreeMap<u64, Transaction>,
    rows: Vec<VisibleRow>,
    /// Ids in WAL, by position.
    logged: Vec<(u64, u64)>,
    first: Option<Snapshot>,
    horizons: Horizons,
    snapshots: Vec<Snapshot>,
}

impl Model {
    pub(super) fn new(rule: Rule, next: u64) -> Self {
        Self {
            rule,
            next,
            wal: 100,
            flushed: 100,
            confirmed: 100,
            running: BTreeMap::new(),
            rows: Vec::new(),
            logged: Vec::new(),
            first: None,
            horizons: Horizons::default(),
            snapshots: Vec::new(),
        }
    }

    fn assign(&mut self) -> u64 {
        // Ids that are no transactions' are left out, as PostgreSQL does.
        while FullXid::from_u64(self.next).of_row().as_u32() < FIRST_NORMAL {
            self.next += 1;
        }
        self.next += 1;
        self.next - 1
    }

    fn log(&mut self, id: u64) -> u64 {
        self.wal += 10;
        self.logged.push((self.wal, id));
        self.wal
    }

    /// A transaction of the phase that `fits`.
    fn chosen(&self, index: &Index, fits: impl Fn(&Transaction) -> bool) -> Option<u64> {
        let fitting: Vec<u64> =
            self.running.iter().filter(|(_, it)| fits(it)).map(|(id, _)| *id).collect();
        (!fitting.is_empty()).then(|| *index.get(&fitting))
    }

    fn chosen_open(&self, index: &Index) -> Option<u64> {
        self.chosen(index, |it| it.prepared.is_none() && it.commit.is_none())
    }

    fn snapshot(&self) -> Snapshot {
        let running: BTreeSet<u64> = self.running.keys().copied().collect();
        let xmin = running.first().copied().unwrap_or(self.next);
        Snapshot { xmin, xmax: self.next, running, lsn: self.wal }
    }

    pub(super) fn take(&mut self, step: &Step) {
        match step {
            Step::Begin => {
                let id = self.assign();
                let it = Transaction { ids: vec![id], ..Transaction::default() };
                self.running.insert(id, it);
            }
            Step::Savepoint(index) => {
                let Some(id) = self.chosen_open(index) else { return };
                let savepoint = self.assign();
                self.running.get_mut(&id).unwrap().ids.push(savepoint);
            }
            Step::Insert(index) => {
                let Some(id) = self.chosen_open(index) else { return };
                let of_row = *self.running[&id].ids.last().unwrap();
                self.log(of_row);
                self.running.get_mut(&id).unwrap().rows.push(of_row);
            }
            Step::Prepare(index) => {
                let Some(id) = self.chosen_open(index) else { return };
                let at = self.log(id);
                self.running.get_mut(&id).unwrap().prepared = Some(at);
            }
            Step::WriteCommit(index) => {
                let Some(id) = self.chosen(index, |it| it.commit.is_none()) else { return };
                let at = self.log(id);
                self.running.get_mut(&id).unwrap().commit = Some(at);
            }
            Step::Leave(index) => {
                let Some(id) = self.chosen(index, |it| it.commit.is_some()) else { return };
                self.leave(id);
            }
            Step::Abort(index) => {
                let Some(id) = self.chosen(index, |it| it.commit.is_none()) else { return };
                self.running.remove(&id);
            }
            Step::OtherTransactions(count) => {
                // PostgreSQL gives out no id that is too far from the oldest one in use.
                let oldest = self.snapshot().xmin;
                let limit = (oldest + (HALF - 3)).max(self.next);
                self.next = (self.next + u64::from(*count)).min(limit);
            }
            Step::Flush => self.flushed = self.wal,
            Step::Confirm(index) => self.confirm(index),
            Step::ReadFirst => self.first = Some(self.snapshot()),
            Step::ReadSecond => self.read_second(),
            Step::Crash => self.crash(),
        }
    }

    fn leave(&mut self, id: u64) {
        let Some(Transaction { rows, commit: Some(commit), .. }) = self.running.remove(&id) else {
            return;
        };
        self.rows.extend(rows.into_iter().map(|id| VisibleRow { id, commit }));
    }

    /// Anything that is flushed may be confirmed.
    fn confirm(&mut self, index: &Index) {
        let room = usize::try_from(self.flushed - self.confirmed).unwrap();
        self.confirmed += u64::try_from(index.index(room + 1)).unwrap();
    }

    fn read_second(&mut self) {
        let Some(first) = self.first.take() else { return };
        let second = self.snapshot();
        let read = match self.rule {
            Rule::PositionFirst => Snapshot { lsn: first.lsn, ..second },
            Rule::Right
            | Rule::VisibleInSnapshot
            | Rule::KeptAcrossCrash
            | Rule::HorizonOfAnyAge => Snapshot { lsn: second.lsn, ..first },
        };
        let horizon = Horizon { xmin: FullXid::from_u64(read.xmin), lsn: Lsn::from_u64(read.lsn) };
        self.horizons.offer(horizon);
        self.snapshots.push(read);
    }

    /// What is not flushed is lost, and its ids are given out again.
    fn crash(&mut self) {
        let flushed = self.flushed;
        self.wal = flushed;
        self.logged.retain(|(at, _)| *at <= flushed);
        self.rows.retain(|row| row.commit <= flushed);
        let committed: Vec<u64> = self
            .running
            .iter()
            .filter(|(_, it)| it.commit.is_some_and(|at| at <= flushed))
            .map(|(id, _)| *id)
            .collect();
        for id in committed {
            self.leave(id);
        }
        self.running.retain(|_, it| it.prepared.is_some_and(|at| at <= flushed));
        for it in self.running.values_mut() {
            it.commit = None;
        }
        let logged = self.logged.iter().map(|(_, id)| id + 1);
        let kept = self.running.values().flat_map(|it| &it.ids).map(|id| id + 1);
        // A checkpoint remembers where the model began.
        let begun = self.rows.iter().map(|row| row.id + 1);
        self.next = logged.chain(kept).chain(begun).max().unwrap_or(self.next);
        self.first = None;
        if self.rule != Rule::KeptAcrossCrash {
            self.horizons = Horizons::default();
            self.snapshots.clear();
        }
    }

    fn is_deletable(&self, covered: Option<Covered>, row: VisibleRow) -> bool {
        let (of_row, next) = (FullXid::from_u64(row.id).of_row(), FullXid::from_u64(self.next));
        match self.rule {
            Rule::VisibleInSnapshot => self.snapshots.iter().any(|it| {
                it.lsn <= self.confirmed && row.id < it.xmax && !it.running.contains(&row.id)
            }),
            Rule::HorizonOfAnyAge => {
                covered.is_some_and(|covered| covered.contains(of_row, covered.before()))
            }
            Rule::Right | Rule::KeptAcrossCrash | Rule::PositionFirst => {
                covered.is_some_and(|covered| covered.contains(of_row, next))
            }
        }
    }

    /// A visible row that would be deleted, although its commit is not confirmed.
    pub(super) fn wrongly_deleted(&mut self) -> Option<String> {
        let covered = self.horizons.confirmed(&Confirmed::at(self.confirmed));
        let wrong =
            |row: &&VisibleRow| row.commit > self.confirmed && self.is_deletable(covered, **row);
        let row = self.rows.iter().find(wrong)?;
        Some(format!("{row:?} with {covered:?}, confirmed {}", self.confirmed))
    }

    /// Ends everything, reads a horizon, and confirms all of WAL.
    pub(super) fn end(&mut self) {
        let all: Vec<u64> = self.running.keys().copied().collect();
        for id in all {
            if self.running[&id].commit.is_none() {
                let at = self.log(id);
                self.running.get_mut(&id).unwrap().commit = Some(at);
            }
            self.leave(id);
        }
        self.take(&Step::ReadFirst);
        self.take(&Step::ReadSecond);
        (self.flushed, self.confirmed) = (self.wal, self.wal);
    }

    /// A row that is kept, although everything is confirmed and no id is too old to be compared.
    pub(super) fn wrongly_kept(&mut self) -> Option<String> {
        let covered = self.horizons.confirmed(&Confirmed::at(self.confirmed));
        let wrong =
            |row: &&VisibleRow| self.next - row.id < HALF && !self.is_deletable(covered, **row);
        self.rows.iter().find(wrong).map(|row| format!("{row:?} with {covered:?}"))
    }
}
