//! What removes rows: the sweeps of `run`, and the command `cleanup`. Both take their steps one at
//! a time, so that anything may happen in between, and prove with the product's own
//! [`relay::delivered`]. The SQL of a step is what the product's statement does.

use std::{collections::BTreeMap, sync::Arc};

use relay::{
    Lsn, Oid,
    delivered::{
        Acknowledged, Confirmed, Covered, DeliveredRows, EventPart, EventsSince, Evidence, FullXid,
        Horizon, Horizons, PartitionRows, Place, Witnessed, Writers, WrittenBy,
    },
    source::SlotHealth,
    testing::samples,
    witness::Witness,
};

use super::{
    database::{Attachment, Database, PARTITIONED, Part, Row, time},
    pipeline::Pipeline,
};

/// Who removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `run`, beside the stream.
    Run,
    /// The command.
    Cleanup,
}

/// A connection that removes rows.
#[derive(Debug)]
pub struct Remover {
    kind: Kind,
    horizons: Horizons,
    /// The first half of a horizon.
    xmin: Option<FullXid>,
    /// Of the command.
    horizon: Option<Horizon>,
    witness: Option<Witness>,
    /// From where on rows are events, as the command has proved it.
    since: Arc<BTreeMap<Place, EventsSince>>,
    covered: Option<Covered>,
    /// The table at hand, and its proof.
    sweep: Option<(usize, DeliveredRows)>,
    /// The partition at hand: its OID, and whether writers are kept out.
    partition: Option<(u32, Writers)>,
}

/// What a step has done.
#[derive(Debug, Default)]
pub struct Done {
    /// The rows that are gone.
    pub removed: Vec<Row>,
    /// What is worth counting.
    pub seen: Vec<&'static str>,
}

impl Done {
    /// Nothing is removed.
    pub(super) fn seen(name: &'static str) -> Self {
        Self { removed: Vec::new(), seen: vec![name] }
    }
}

fn written_by(database: &Database, row: &Row) -> WrittenBy {
    WrittenBy {
        table: Oid::from_u32(row.part),
        xmin: row.xid.of_row(),
        time: Some(time(row.time)),
        aged_by: database.age(row.table),
    }
}

impl Remover {
    /// A new connection.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            horizons: Horizons::default(),
            xmin: None,
            horizon: None,
            witness: None,
            since: Arc::default(),
            covered: None,
            sweep: None,
            partition: None,
        }
    }

    /// Ends the transaction that is open.
    pub fn give_up(&mut self, database: &mut Database) {
        if let Some((oid, Writers::KeptOut)) = self.partition.take()
            && let Some(part) = database.with_oid(oid)
        {
            part.is_locked = false;
        }
    }

    /// The next step. `which` chooses a table, and of rows that may go those that go now.
    pub fn step(&mut self, database: &mut Database, pipeline: &Pipeline, which: u64) -> Done {
        if self.partition.is_some() {
            return self.drop_partition(database, pipeline);
        }
        if let Some((table, proof)) = self.sweep.clone() {
            if table == PARTITIONED && which.is_multiple_of(2) {
                return self.look_at_partition(database, pipeline, &proof, which);
            }
            if which.is_multiple_of(5) {
                self.sweep = None;
                return Done::default();
            }
            return delete(database, pipeline, (table, &proof), which);
        }
        let next = FullXid::from_u64(database.snapshot_xmin());
        let Some(xmin) = self.xmin.take() else {
            self.xmin = Some(next);
            return self.prove(database, pipeline, which);
        };
        let horizon = Horizon { xmin, lsn: Lsn::from_u64(database.wal) };
        match self.kind {
            Kind::Run => self.horizons.offer(horizon),
            Kind::Cleanup => {
                self.horizon.get_or_insert(horizon);
            }
        }
        Done::default()
    }

    /// Tries to prove something, and begins a sweep.
    fn prove(&mut self, database: &Database, pipeline: &Pipeline, which: u64) -> Done {
        let covered = match self.kind {
            Kind::Run => self.prove_beside(database, pipeline),
            Kind::Cleanup => self.prove_alone(database, pipeline),
        };
        let Some(covered) = covered else { return Done::seen("refused") };
        self.covered = Some(covered);
        let tables: Vec<usize> = pipeline.tables.iter().copied().collect();
        let Some(table) = tables.get(usize::try_from(which).unwrap_or(0) % tables.len().max(1))
        else {
            return Done::default();
        };
        let since = match self.kind {
            Kind::Run => &pipeline.witness.since,
            Kind::Cleanup => &self.since,
        };
        let parts = database.event_parts(*table, since);
        self.sweep = parts.map(|parts| (*table, covered.rows_of(parts)));
        Done::default()
    }

    /// `retention/task.rs`.
    fn prove_beside(&mut self, database: &Database, pipeline: &Pipeline) -> Option<Covered> {
        let process = pipeline.process.as_ref().filter(|_| !pipeline.is_open)?;
        let slot = slot(database, Some(7))?;
        let evidence = Evidence {
            here: &database.history,
            slot_name: "s",
            slot: &slot,
            acknowledged: Acknowledged {
                history: Some(&process.history),
                position: Lsn::from_u64(process.position),
                last_commit: None,
                by: Witnessed::ByRouter,
            },
            verified: Lsn::from_u64(process.verified),
            nothing_before: None,
        };
        self.horizons.confirmed(&Confirmed::by(evidence).ok()?)
    }

    /// `cli/cleanup/proof.rs`: the witness is read in one step, and the slot in a later one.
    fn prove_alone(&mut self, database: &Database, pipeline: &Pipeline) -> Option<Covered> {
        let horizon = self.horizon?;
        let Some(witness) = self.witness.take() else {
            if !pipeline.is_open {
                self.witness = Some(pipeline.witness.clone());
            }
            return None;
        };
        let is_active = pipeline.process.is_some();
        let slot = slot(database, is_active.then_some(7))?;
        let evidence = Evidence {
            here: &database.history,
            slot_name: "s",
            slot: &slot,
            acknowledged: Acknowledged::from(&witness),
            verified: horizon.lsn,
            nothing_before: None,
        };
        let mut confirmed = Confirmed::by(evidence).ok()?;
        let is_idle = || {
            let from = database.slot.unwrap_or_default();
            let sends =
                |one: &super::database::Commit| one.at >= from && one.end <= horizon.lsn.as_u64();
            !is_active && !database.log.iter().any(sends)
        };
        if confirmed.position() < horizon.lsn && is_idle() {
            let nothing_before = Some(horizon.lsn);
            confirmed = Confirmed::by(Evidence { nothing_before, ..evidence }).ok()?;
        }
        let covered = horizon.covered(&confirmed)?;
        let now = database.catalog();
        let is_published = pipeline.is_published(&witness.catalog, &now) && now.is_settled();
        is_published.then_some(())?;
        // `check_next_start` reads the witness again, with what a router has found meanwhile.
        (!pipeline.is_open).then_some(())?;
        self.since = witness.since_by(&now);
        Some(covered)
    }

    /// The look without a lock, and, where nothing keeps the partition, the lock.
    fn look_at_partition(
        &mut self,
        database: &mut Database,
        pipeline: &Pipeline,
        proof: &DeliveredRows,
        which: u64,
    ) -> Done {
        let parts: Vec<u32> = database.reached(PARTITIONED).map(|part| part.oid).collect();
        // The last one takes the rows of the present.
        let old = parts.split_last().map_or(&[][..], |(_, old)| old);
        let Some(oid) = old.get(usize::try_from(which / 2).unwrap_or(0) % old.len().max(1)) else {
            return Done::default();
        };
        let rows = count(database, pipeline, proof, *oid);
        if rows.older > 0 {
            return Done::seen("rows kept as older");
        }
        if !rows.may_go() {
            return Done::default();
        }
        if rows.droppable(Oid::from_u32(*oid), Writers::May).is_some() {
            self.partition = Some((*oid, Writers::May));
            return Done::default();
        }
        let is_written =
            |running: &super::database::Running| running.rows.iter().any(|row| row.part == *oid);
        if database.running.iter().any(is_written) {
            return Done::seen("partitions kept by a late row");
        }
        if let Some(part) = database.with_oid(*oid) {
            part.is_locked = true;
            self.partition = Some((*oid, Writers::KeptOut));
        }
        Done::default()
    }

    /// The look under the lock, and the drop, which waits for all that use the outbox.
    fn drop_partition(&mut self, database: &mut Database, pipeline: &Pipeline) -> Done {
        let Some((oid, writers)) = self.partition else { return Done::default() };
        let Some((table, proof)) = self.sweep.clone() else { return Done::default() };
        let is_used = database.running.iter().any(|running| running.locks.contains(&table));
        let is_attached =
            database.with_oid(oid).is_some_and(|part| part.attachment == Attachment::Attached);
        let rows = count(database, pipeline, &proof, oid);
        let droppable = match writers {
            // What a wrong rule has allowed by the first look.
            Writers::May => true,
            Writers::KeptOut => rows.droppable(Oid::from_u32(oid), writers).is_some(),
        };
        self.give_up(database);
        if is_used || !is_attached || !droppable {
            return Done::seen("partitions kept by a late row");
        }
        database.parts.retain(|part| part.oid != oid);
        let (removed, left) = database.rows.iter().partition(|row| row.part == oid);
        database.rows = left;
        Done { removed, seen: vec!["dropped partitions"] }
    }
}

fn slot(database: &Database, active_pid: Option<i32>) -> Option<SlotHealth> {
    Some(SlotHealth {
        confirmed_flush_lsn: Some(database.slot_at()?),
        current_wal_lsn: Lsn::from_u64(database.wal),
        active_pid,
        ..samples::slot()
    })
}

fn count(
    database: &Database,
    pipeline: &Pipeline,
    proof: &DeliveredRows,
    oid: u32,
) -> PartitionRows {
    let next = FullXid::from_u64(database.next_xid);
    let mut rows = PartitionRows::default();
    let part = database.parts.iter().find(|part| part.oid == oid);
    let is_as_proved = part.is_none_or(|part| is_as_proved(proof, part));
    for row in database.rows.iter().filter(|row| row.part == oid) {
        let by = written_by(database, row);
        rows.all += 1;
        if !is_as_proved || !proof.has_event(by, next) {
            rows.older += 1;
        } else if !proof.covered().contains(by.xmin, next) {
            rows.undelivered += 1;
        } else if pipeline.held.contains(&row.id) {
            rows.held += 1;
        }
    }
    rows
}

/// Whether a partition's row in `pg_inherits` is the one that was read for the proof: each
/// statement compares them.
fn is_as_proved(proof: &DeliveredRows, part: &Part) -> bool {
    let is_known = |known: &EventPart| known.oid == Oid::from_u32(part.oid);
    let known = proof.parts().and_then(|parts| parts.iter().find(|known| is_known(known)));
    known.is_none_or(|known| part.link.is_none_or(|link| known.links == [link]))
}

/// One DELETE: of the rows that may go, about a half.
fn delete(
    database: &mut Database,
    pipeline: &Pipeline,
    (table, proof): (usize, &DeliveredRows),
    which: u64,
) -> Done {
    let next = FullXid::from_u64(database.next_xid);
    let reached: Vec<u32> = database
        .reached(table)
        .filter(|part| is_as_proved(proof, part))
        .map(|part| part.oid)
        .collect();
    let mut done = Done::default();
    let goes = |row: &Row| {
        reached.contains(&row.part)
            && !(row.id ^ which).is_multiple_of(3)
            && !pipeline.held.contains(&row.id)
            && proof.contains(written_by(database, row), next)
    };
    let is_older = |row: &Row| {
        reached.contains(&row.part) && !proof.has_event(written_by(database, row), next)
    };
    if database.rows.iter().any(is_older) {
        done.seen.push("rows kept as older");
    }
    let (removed, left) = database.rows.iter().copied().partition(goes);
    database.rows = left;
    done.removed = removed;
    done
}
