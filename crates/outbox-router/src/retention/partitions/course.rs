//! A pass over the partitions of a table: each that is old is looked at, locked against writers,
//! looked at again, and dropped.
//!
//! The second look and the drop are one transaction. Its lock lets nothing be written to the
//! partition: what is there was committed while pgoutput published the partition as its root, and
//! is proved to be delivered. So a partition is never detached: rows that are written to one whose
//! DETACH CONCURRENTLY is pending are in no stream (PostgreSQL finds no root for them), although
//! transactions that are open, and writers that name the partition, still reach it.
//!
//! A process that is killed at any place leaves each partition as it was, or gone.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use relay::{
    Case, Code, Failure, Oid,
    delivered::{DeliveredRows, DroppablePartition, PartitionRows, Writers},
};
use tokio::time::Instant;

use super::{
    catalog::{self, Attachment, Kind, Partition},
    check,
    root::{Root, check_owner, left_behind, unsuitable},
};
use crate::retention::{
    rows::Rule,
    session::{Session, begin, text},
    settings::RetentionSettings,
    step::{Rest, Step},
    target::Target,
};

/// A pass over one table.
pub(in crate::retention) struct Course {
    /// `None` before the catalog was read.
    left: Option<VecDeque<Partition>>,
    /// The first failure that left the others possible.
    failure: Option<Failure>,
    /// How many partitions were locked by others.
    locked: u32,
    looks: Looks,
    /// Rows of the partitions that were looked at which keep them, since they were never sent.
    older: u64,
}

/// When partitions that had to stay are looked at again, by their OIDs. A look reads the whole
/// partition, and an event may be held for weeks.
#[derive(Debug, Default)]
pub(in crate::retention) struct Looks(HashMap<u32, Instant>);

/// How many times as long as a look the time until the next is: so looking at a partition that
/// stays takes a twentieth of the time, at most.
const PAUSE_PER_LOOK: u32 = 20;

impl Looks {
    fn is_due(&self, oid: u32) -> bool {
        self.0.get(&oid).is_none_or(|at| *at <= Instant::now())
    }

    fn note(&mut self, oid: u32, took: Duration) {
        self.0.retain(|_, at| *at > Instant::now());
        self.0.insert(oid, Instant::now() + took * PAUSE_PER_LOOK);
    }
}

/// How many partitions may be locked before a pass ends: each costs `retention.lock_timeout`, and a
/// session that locks the root locks all.
const LOCKED_MAX: u32 = 3;

/// How long DROP waits for the table's other users, who queue behind it meanwhile. It is less than
/// PostgreSQL's `deadlock_timeout`: a writer that waits for this partition is never the one that
/// PostgreSQL ends.
const DROP_LIMIT: Duration = Duration::from_millis(500);

/// What has become of a partition.
enum Outcome {
    /// It is as it was, with these rows.
    Stays(PartitionRows),
    /// It has gone, with so many rows.
    Dropped(u64),
}

/// What a pass works with.
pub(in crate::retention) struct Work<'w> {
    pub(in crate::retention) target: &'w Target,
    pub(in crate::retention) root: &'w Root,
    pub(in crate::retention) settings: &'w RetentionSettings,
    pub(in crate::retention) delivered: &'w DeliveredRows,
}

impl Course {
    pub(in crate::retention) fn new(looks: Looks) -> Self {
        Self { left: None, failure: None, locked: 0, looks, older: 0 }
    }

    /// How many rows keep partitions because they were written before these were partitions, or the
    /// table an outbox.
    pub(in crate::retention) const fn older(&self) -> u64 {
        self.older
    }

    /// For the next pass.
    pub(in crate::retention) fn into_looks(self) -> Looks {
        self.looks
    }

    /// Looks at one partition, and drops it if it may go.
    ///
    /// # Errors
    /// What keeps the pass from going on; at its end, the first failure of a partition.
    pub(in crate::retention) async fn step(
        &mut self,
        session: Session<'_>,
        work: &Work<'_>,
    ) -> Result<Step, Failure> {
        let left = match &mut self.left {
            Some(left) => left,
            None => {
                let partitions = work.begin(session, &mut self.failure).await?;
                self.left.insert(partitions)
            }
        };
        let Some(partition) = left.pop_front() else {
            let done = Step { removed: 0, rest: Rest::None };
            return self.failure.take().map_or(Ok(done), Err);
        };
        if !self.looks.is_due(partition.oid) {
            return Ok(Step { removed: 0, rest: Rest::Some });
        }
        let begun = Instant::now();
        let outcome = work.carry_out(session, &partition).await;
        let is_locked = |failure: &Failure| failure.case == Some(Case::RetentionLocked);
        match &outcome {
            Ok(Outcome::Dropped(_)) => {}
            // What it waited for is no look, and may be over when the next sweep begins.
            Err(failure) if is_locked(failure) => {}
            Ok(Outcome::Stays(_)) | Err(_) => self.looks.note(partition.oid, begun.elapsed()),
        }
        let removed = match outcome {
            Ok(Outcome::Stays(rows)) => {
                self.older += rows.older;
                0
            }
            Ok(Outcome::Dropped(removed)) => removed,
            Err(failure) if failure.code == Code::ServerUnreachable => return Err(failure),
            Err(failure) => {
                self.locked += u32::from(is_locked(&failure));
                if self.locked >= LOCKED_MAX {
                    return Err(self.failure.take().unwrap_or(failure));
                }
                self.failure.get_or_insert(failure);
                0
            }
        };
        Ok(Step { removed, rest: Rest::Some })
    }
}

impl Work<'_> {
    fn rule(&self) -> Rule<'_> {
        Rule { target: self.target, delivered: self.delivered, keep: self.settings.section.keep }
    }

    /// Everything that is old, in the order of time; and what a person has to look at.
    async fn begin(
        &self,
        session: Session<'_>,
        failure: &mut Option<Failure>,
    ) -> Result<VecDeque<Partition>, Failure> {
        if let Some(table) = catalog::left_behind(session, self.root).await?.first() {
            failure.get_or_insert(left_behind(table, &self.target.name));
        }
        let partitions = catalog::partitions(session, self.target, self.root).await?;
        let (pending, attached): (Vec<_>, Vec<_>) = partitions
            .into_iter()
            .partition(|partition| partition.attachment == Attachment::Pending);
        if let Some(pending) = pending.first() {
            let (name, table) = (&pending.name, pending.quoted());
            let what = format!(
                "partition {name} is half detached: rows that are still written to it are in no \
                 stream"
            );
            let finalize = format!(
                "alter table {} detach partition {table} finalize; then compare {table} with the \
                 topic: its youngest rows may be in no topic",
                self.target.quoted()
            );
            failure.get_or_insert(unsuitable(what, finalize));
        }
        Ok(self.old(session, attached).await?.into())
    }

    /// The partitions of which every row is old enough.
    pub(super) async fn old(
        &self,
        session: Session<'_>,
        partitions: Vec<Partition>,
    ) -> Result<Vec<Partition>, Failure> {
        let cutoff = [self.target.time.ago(self.settings.section.keep)];
        let cutoff = catalog::moments(session, self.target, &cutoff).await?;
        let is_old = |partition: &Partition| {
            let (Some(range), Some(cutoff)) = (partition.range, cutoff.first()) else {
                return false;
            };
            let is_bounded = range.from > i64::MIN && range.to < i64::MAX;
            partition.kind == Kind::Table && is_bounded && range.to <= *cutoff
        };
        let mut old: Vec<Partition> = partitions.into_iter().filter(is_old).collect();
        old.sort_by_key(|partition| partition.range);
        Ok(old)
    }

    async fn carry_out(
        &self,
        session: Session<'_>,
        partition: &Partition,
    ) -> Result<Outcome, Failure> {
        check_owner(session, &format!("partition {}", partition.name), &partition.owner)?;
        // Without a lock, for as long as it takes: most partitions that stay are seen here.
        let rows = self.counted(session, partition).await?;
        if !rows.may_go() {
            return Ok(Outcome::Stays(rows));
        }
        let outcome = self.drop(session, partition).await;
        if !matches!(outcome, Ok(Outcome::Dropped(_))) {
            session.execute("rollback").await?;
        }
        if let Ok(Outcome::Dropped(rows)) = outcome {
            tracing::info!(
                table = %self.target.name, partition = %partition.name, rows,
                "dropped a delivered partition"
            );
        }
        outcome
    }

    /// Reads it in a transaction that refuses to leave rows out.
    pub(super) async fn counted(
        &self,
        session: Session<'_>,
        partition: &Partition,
    ) -> Result<PartitionRows, Failure> {
        session.execute(&begin_counting()).await?;
        let Partition { oid, name, .. } = partition;
        let rows = check::count(session, &self.rule(), *oid, name).await;
        session.execute("rollback").await?;
        rows
    }

    /// Locks the partition against writers, looks at it again, and drops it. A transaction that has
    /// written to it has ended when it is locked, and the statement behind that sees its rows. The
    /// caller rolls back what is not dropped.
    async fn drop(&self, session: Session<'_>, partition: &Partition) -> Result<Outcome, Failure> {
        let Partition { oid, name, .. } = partition;
        let table = partition.quoted();
        session
            .execute(&format!("{}; lock table only {table} in share mode", begin_counting()))
            .await?;
        let rows = check::count(session, &self.rule(), *oid, name).await?;
        let Some(droppable) = rows.droppable(Oid::from_u32(*oid), Writers::KeptOut) else {
            return Ok(Outcome::Stays(rows));
        };
        self.drop_locked(session, partition, droppable).await
    }

    /// Drops it in the transaction that has locked it. A session that waits for that lock might be
    /// ended as the victim of a deadlock, so it goes first.
    async fn drop_locked(
        &self,
        session: Session<'_>,
        partition: &Partition,
        droppable: DroppablePartition,
    ) -> Result<Outcome, Failure> {
        let (name, table, oid) = (&partition.name, partition.quoted(), droppable.oid());
        let waits =
            format!("select exists (select from pg_locks where relation = {oid} and not granted)");
        if text(&session.row(&waits).await?, 0)? == "t" {
            let what = format!("{name} stays: another session waits for its lock");
            return Err(Failure::of(Case::RetentionLocked, what));
        }
        let limit = DROP_LIMIT.min(self.settings.section.lock_timeout).as_millis();
        let statements = format!("set local lock_timeout = {limit}; drop table {table}; commit");
        session.execute(&statements).await.map_err(|failure| {
            if failure.case.is_some() || failure.code == Code::ServerUnreachable {
                return failure;
            }
            let what = format!("partition {name} cannot be dropped: {}", failure.message);
            unsuitable(what, format!("drop table {table}"))
        })?;
        Ok(Outcome::Dropped(droppable.rows()))
    }
}

/// Begins as every transaction that removes rows, and counting takes as long as it takes.
pub(super) fn begin_counting() -> String {
    format!("{}; set local statement_timeout = 0; set local enable_seqscan = on", begin())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_stays_is_left_alone_for_longer_the_longer_a_look_takes() {
        let mut looks = Looks::default();
        assert!(looks.is_due(1));
        looks.note(1, Duration::from_secs(60));
        looks.note(2, Duration::ZERO);
        assert_eq!([1, 2, 3].map(|oid| looks.is_due(oid)), [false, true, true]);
    }
}
