//! The order of events, from a seed; and R1 after each removal.

use std::collections::BTreeSet;

use relay::{
    Lsn, Oid,
    delivered::{EventsSince, FullXid},
    source::Inserts,
};

use super::{
    RowsCoverage,
    database::{Attachment, Database, Isolation, PARTITIONED, PLAIN, Part, Row, Running, time},
    pipeline::{Fate, Pipeline},
    remover::{Done, Kind, Remover},
};
use crate::{
    invariant::{Invariant, Violation},
    plan::Trace,
    random::Random,
};

/// How many steps a run takes.
const STEPS: u64 = 260;
/// How many transactions run at a time.
const RUNNING_MAX: usize = 4;

/// Everything there is.
pub struct RowsWorld {
    pub(super) random: Random,
    trace: Trace,
    pub(super) database: Database,
    /// A standby's, or a backup's, state.
    pub(super) copy: Database,
    pub(super) pipeline: Pipeline,
    pub(super) removers: Vec<Remover>,
    next_row: u64,
    pub(super) next_entry: u64,
    /// The server was restored on its timeline, and no router has seen it since.
    pub(super) is_restored: bool,
    /// The transactions that altered the publication, also on a server that was restored since.
    pub(super) altered_by: BTreeSet<u64>,
    /// What was reached.
    pub coverage: RowsCoverage,
}

impl RowsWorld {
    /// The world of a seed.
    pub fn new(seed: u64, trace: Trace) -> Self {
        let mut random = Random::new(seed ^ 0x526f_7773);
        let first_xid = match random.below(3) {
            0 => (1 << 32) - 20,
            _ => 1_000,
        };
        let mut database = Database::new(first_xid);
        database.slot = Some(database.wal);
        let pipeline = Pipeline::set_up(&database);
        let copy = database.clone();
        let coverage = RowsCoverage::default();
        let (removers, next_row, next_entry, is_restored) = (Vec::new(), 0, 1, false);
        Self {
            random,
            trace,
            database,
            copy,
            pipeline,
            removers,
            next_row,
            next_entry,
            is_restored,
            altered_by: BTreeSet::new(),
            coverage,
        }
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// A row is gone that nobody has.
    pub fn run(&mut self) -> Result<(), Violation> {
        for step in 0..STEPS {
            self.database.clock = step;
            let done = self.step();
            if self.trace == Trace::On && (!done.seen.is_empty() || !done.removed.is_empty()) {
                self.tell(step, &done);
            }
            self.settle(&done)?;
        }
        self.end()
    }

    #[expect(clippy::print_stderr, reason = "requested by --trace")]
    fn tell(&self, step: u64, done: &Done) {
        let Database { wal, slot, next_xid, history, published, .. } = &self.database;
        let Pipeline { witness, process, is_open, .. } = &self.pipeline;
        eprintln!(
            "{step}: {:?} {:?} · WAL {wal} slot {slot:?} next {next_xid} timeline {} {published:?} · \
             witness {} {:?} open {is_open} {process:?}",
            done.seen, done.removed, history.timeline, witness.position, witness.since
        );
    }

    /// Counts what was done, and checks R1.
    fn settle(&mut self, done: &Done) -> Result<(), Violation> {
        done.seen.iter().for_each(|name| self.coverage.count(name));
        for row in &done.removed {
            self.coverage.count("removed");
            let Pipeline { topic, held, given_up, .. } = &self.pipeline;
            let is_known = topic.contains(&row.id) && !held.contains(&row.id);
            if !is_known && !given_up.contains(&row.id) {
                let what = format!("{row:?} is removed, and in no topic");
                return Err(Violation { invariant: Invariant::R1Kept, what });
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Done {
        let mut done = Done::default();
        let database = &self.database;
        if database.publication.inserts == Inserts::Withheld
            && database.altering.is_none()
            && self.random.one_in(8)
        {
            self.set_publish(Inserts::Published);
            return Done::seen("inserts published again");
        }
        // A commit waits for its standby: much is done meanwhile.
        let all = if self.database.altering.is_some() && self.random.one_in(2) { 52 } else { 63 };
        let seen = match self.random.below(all) {
            0..=5 => self.begin(),
            6..=19 => self.write(),
            20..=29 => self.end_one(),
            30..=35 => {
                let fate = if self.random.one_in(12) { Fate::Held } else { Fate::Delivered };
                match (self.pipeline.deliver(&self.database, fate), fate) {
                    (0, _) => None,
                    (_, Fate::Held) => Some("held"),
                    (_, Fate::Delivered) => Some("delivered"),
                }
            }
            36..=39 => {
                self.pipeline.confirm(&mut self.database);
                None
            }
            40 | 41 => {
                self.pipeline.monitor(&self.database);
                None
            }
            42..=51 => {
                done = self.remove();
                None
            }
            52 => self.partitions(),
            53 => self.slot(),
            54 => self.router(),
            55 => self.requeue(),
            56 => self.tables(),
            57 => self.publication(),
            58 => self.slot(),
            59 => self.server(),
            60 if self.random.one_in(4) => self.add_time(),
            _ => self.change(),
        };
        done.seen.extend(seen);
        done
    }

    fn begin(&mut self) -> Option<&'static str> {
        if self.database.running.len() >= RUNNING_MAX {
            return None;
        }
        let isolation = if self.random.one_in(3) {
            let parts = self.database.parts.iter();
            let seen = parts.filter(|part| part.attachment != Attachment::Detached);
            Isolation::RepeatableRead(seen.map(|part| part.oid).collect())
        } else {
            Isolation::ReadCommitted
        };
        self.database.running.push(Running {
            ids: Vec::new(),
            isolation,
            rows: Vec::new(),
            locks: BTreeSet::new(),
            attaches: Vec::new(),
            is_prepared: false,
        });
        None
    }

    /// One of the transactions that can still do something.
    fn active(&mut self) -> Option<usize> {
        let running = self.database.running.iter().enumerate();
        let active: Vec<usize> =
            running.filter(|(_, one)| !one.is_prepared).map(|(index, _)| index).collect();
        (!active.is_empty()).then(|| active[self.random.index(active.len())])
    }

    fn write(&mut self) -> Option<&'static str> {
        let index = self.active()?;
        if self.random.one_in(5) || self.database.running[index].ids.is_empty() {
            // A transaction's own id, or that of a savepoint.
            let xid = self.database.assign();
            self.database.running[index].ids.push(xid);
        }
        if self.random.one_in(25) {
            return self.attach_within(index);
        }
        let table = if self.random.one_in(4) { PLAIN } else { PARTITIONED };
        let by_name = table == PARTITIONED && self.random.one_in(6);
        let own = self.database.running[index].attaches.clone();
        let places: Vec<Part> = self
            .database
            .parts
            .iter()
            .chain(&own)
            .filter(|part| part.table == table && !part.is_locked)
            .filter(|part| by_name || self.database.routes(&self.database.running[index], part))
            .copied()
            .collect();
        if places.is_empty() {
            return None;
        }
        let part = places[self.random.index(places.len())];
        let is_published = self.database.publishes(&part);
        self.insert(index, part);
        (!is_published && part.attachment != Attachment::Attached).then_some("rows in no stream")
    }

    pub(super) fn insert(&mut self, index: usize, part: Part) {
        let is_published = self.database.publishes(&part);
        self.coverage.count("rows");
        self.next_row += 1;
        let id = self.next_row;
        // Applications write times of the past and of the future, too.
        let clock = self.database.clock;
        let time = match self.random.below(10) {
            0 => clock + self.random.below(50),
            _ => clock - self.random.below(1 + clock.min(9)),
        };
        let running = &mut self.database.running[index];
        let xid = FullXid::from_u64(*running.ids.last().expect("it has an id"));
        let (table, oid, written) = (part.table, part.oid, clock);
        running.rows.push(Row { id, table, part: oid, xid, time, written, is_published });
        // By its name, a partition alone is locked.
        if part.attachment == Attachment::Attached {
            running.locks.insert(part.table);
        }
    }

    /// A transaction makes a partition: as one, or as a table that it fills first, maybe under a
    /// savepoint.
    fn attach_within(&mut self, index: usize) -> Option<&'static str> {
        let ids = &self.database.running[index].ids;
        let xid = *ids.get(self.random.index(ids.len()))?;
        let is_filled = self.random.one_in(2);
        let part = self.database.new_partition(xid);
        if is_filled {
            self.insert(index, Part { attachment: Attachment::Detached, ..part });
        }
        let running = &mut self.database.running[index];
        running.locks.insert(PARTITIONED);
        running.attaches.push(part);
        self.insert(index, part);
        Some(if is_filled { "attached with rows" } else { "rows of the attaching transaction" })
    }

    fn end_one(&mut self) -> Option<&'static str> {
        if self.database.running.is_empty() {
            return None;
        }
        let index = self.random.index(self.database.running.len());
        match self.random.below(8) {
            0 => {
                self.database.running.remove(index);
            }
            1 => self.database.running[index].is_prepared = true,
            _ => self.database.commit(index),
        }
        None
    }

    fn remove(&mut self) -> Done {
        if self.removers.len() < 2 && self.random.one_in(6) {
            let kind = if self.random.one_in(2) { Kind::Cleanup } else { Kind::Run };
            self.removers.push(Remover::new(kind));
        }
        if self.removers.is_empty() {
            return Done::default();
        }
        let index = self.random.index(self.removers.len());
        if self.random.one_in(25) {
            self.removers.remove(index).give_up(&mut self.database);
            return Done::default();
        }
        let which = self.random.next_number();
        self.removers[index].step(&mut self.database, &self.pipeline, which)
    }

    fn router(&mut self) -> Option<&'static str> {
        if self.pipeline.process.take().is_some() {
            return None;
        }
        let was_open = self.pipeline.is_open;
        self.pipeline.start(&self.database);
        self.is_restored = false;
        if was_open && self.pipeline.accept(&mut self.database) {
            // Nothing shows a server that is taken back behind an acceptance before the next event.
            self.copy = self.database.clone();
            return Some("accepted");
        }
        None
    }

    /// Held events are produced, when a person says so.
    fn requeue(&mut self) -> Option<&'static str> {
        let held = std::mem::take(&mut self.pipeline.held);
        self.pipeline.topic.extend(held);
        None
    }

    /// With everything over, what is delivered goes.
    fn end(&mut self) -> Result<(), Violation> {
        for mut remover in std::mem::take(&mut self.removers) {
            remover.give_up(&mut self.database);
        }
        while !self.database.running.is_empty() {
            self.database.commit(0);
        }
        self.database.altering = None;
        self.requeue();
        self.pipeline.process = None;
        self.pipeline.start(&self.database);
        if self.pipeline.accept(&mut self.database) {
            self.pipeline.start(&self.database);
        }
        let Some(process) = &self.pipeline.process else {
            let what = "nothing is open, and no router starts".to_owned();
            return Err(Violation { invariant: Invariant::R1Kept, what });
        };
        let (tables, mut left) = (process.tables.clone(), self.database.log.len() + 1);
        while left > 0 {
            self.pipeline.deliver(&self.database, Fate::Delivered);
            left -= 1;
        }
        self.pipeline.confirm(&mut self.database);
        self.pipeline.monitor(&self.database);
        let mut remover = Remover::new(Kind::Run);
        for _ in 0..400 {
            let which = self.random.next_number();
            let done = remover.step(&mut self.database, &self.pipeline, which);
            self.settle(&done)?;
            self.pipeline.deliver(&self.database, Fate::Delivered);
            self.pipeline.confirm(&mut self.database);
            self.pipeline.monitor(&self.database);
        }
        self.nothing_is_kept_wrongly(&tables)
    }

    fn nothing_is_kept_wrongly(&self, tables: &BTreeSet<usize>) -> Result<(), Violation> {
        let is_kept_wrongly = |row: &&Row| {
            let known = &self.pipeline.witness.since;
            let parts = self.database.event_parts(row.table, known).unwrap_or_default();
            let is_event = |since: EventsSince| {
                row.xid >= since.xid && since.older.is_none_or(|older| time(row.time) > older.at)
            };
            let of_row = Oid::from_u32(row.part);
            tables.contains(&row.table)
                && row.is_published
                && self.pipeline.topic.contains(&row.id)
                && parts.iter().any(|part| part.oid == of_row && is_event(part.since))
        };
        match self.database.rows.iter().find(is_kept_wrongly) {
            None => Ok(()),
            Some(row) => {
                let at = Lsn::from_u64(self.database.wal);
                let what = format!("{row:?} is delivered, and stays at {at}");
                Err(Violation { invariant: Invariant::R1Kept, what })
            }
        }
    }
}
