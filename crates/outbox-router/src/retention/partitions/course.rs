//! A pass over the partitions of a table: each that is old is checked, detached, checked again,
//! and dropped.
//!
//! A process that is killed at any place leaves one of these, and the next pass goes on from there:
//!
//! * a partition with a mark: it is checked like any other;
//! * a mark, and DETACH CONCURRENTLY pending: rows get there no more; FINALIZE ends it;
//! * a table with a mark that is no partition any more: it is checked, and dropped.
//!
//! A table whose second check fails is not attached again: the router would have to take that for
//! a gap (P021, "detached and attached again"), because rows that were written to it meanwhile are
//! not in the stream. It stays as a table of its own until its rows are delivered.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use relay::{Case, Code, Failure, TableName, retention::FullXid};
use tokio::time::Instant;

use super::{
    catalog::{self, Attachment, CONCURRENTLY_SINCE, Detached, Kind, Partition, mark},
    check::{self, Origin, Rows},
    root::{Root, check_owner, kept, unsuitable},
};
use crate::{
    postgres::{quote_literal, quote_table},
    retention::{
        rows::Rule,
        session::Session,
        settings::RetentionSettings,
        step::{Rest, Step},
        target::Target,
    },
};

/// A pass over one table.
pub(in crate::retention) struct Course {
    /// `None` before the catalog was read.
    left: Option<VecDeque<Task>>,
    /// The first failure that left the others possible.
    failure: Option<Failure>,
    /// How many tables were locked by others.
    locked: u32,
    looks: Looks,
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

/// How many tables may be locked before a pass ends: each costs `retention.lock_timeout`, and a
/// session that locks the root locks all.
const LOCKED_MAX: u32 = 3;

/// What is to be done about one table.
enum Task {
    Drop(Detached),
    Finish(Partition),
    Detach(Partition, Detaching),
}

impl Task {
    const fn oid(&self) -> u32 {
        match self {
            Self::Drop(Detached { oid, .. })
            | Self::Finish(Partition { oid, .. })
            | Self::Detach(Partition { oid, .. }, _) => *oid,
        }
    }
}

/// What has become of a partition.
enum Outcome {
    /// It is as it was.
    Stays,
    /// It has gone, with so many rows.
    Dropped(u64),
}

/// By which statement a partition is detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detaching {
    /// It locks no writer out.
    Concurrently,
    /// PostgreSQL 13 knows no other, and neither does a table with a default partition.
    Locking,
}

/// What a pass works with.
pub(in crate::retention) struct Work<'w> {
    pub(in crate::retention) target: &'w Target,
    pub(in crate::retention) root: &'w Root,
    pub(in crate::retention) settings: &'w RetentionSettings,
    pub(in crate::retention) covered: FullXid,
}

impl Course {
    pub(in crate::retention) fn new(looks: Looks) -> Self {
        Self { left: None, failure: None, locked: 0, looks }
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
                let tasks = work.tasks(session, &mut self.failure).await?;
                self.left.insert(tasks)
            }
        };
        let Some(task) = left.pop_front() else {
            let done = Step { removed: 0, rest: Rest::None };
            return self.failure.take().map_or(Ok(done), Err);
        };
        let detaches = !matches!(task, Task::Drop(_));
        let oid = task.oid();
        if matches!(task, Task::Detach(..)) && !self.looks.is_due(oid) {
            return Ok(Step { removed: 0, rest: Rest::Some });
        }
        let begun = Instant::now();
        let removed = match work.carry_out(session, task).await {
            Ok(Outcome::Stays) => {
                self.looks.note(oid, begun.elapsed());
                0
            }
            Ok(Outcome::Dropped(removed)) => removed,
            Err(failure) if failure.code == Code::ServerUnreachable => return Err(failure),
            Err(failure) => {
                if detaches && failure.case == Some(Case::RetentionLocked) {
                    // It may be half detached, and then no other can be detached before it is.
                    left.clear();
                }
                self.locked += u32::from(failure.case == Some(Case::RetentionLocked));
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
        Rule { target: self.target, covered: self.covered, keep: self.settings.section.keep }
    }

    /// Everything that is old, in the order of time.
    async fn tasks(
        &self,
        session: Session<'_>,
        failure: &mut Option<Failure>,
    ) -> Result<VecDeque<Task>, Failure> {
        let detached = catalog::detached(session, self.root).await?;
        let mut tasks: VecDeque<Task> = detached.into_iter().map(Task::Drop).collect();
        let partitions = catalog::partitions(session, self.target, self.root).await?;
        let has_default = partitions.iter().any(|partition| partition.kind == Kind::Default);
        let way = if has_default || session.backend.version < CONCURRENTLY_SINCE {
            Detaching::Locking
        } else {
            Detaching::Concurrently
        };
        let (pending, attached): (Vec<_>, Vec<_>) = partitions
            .into_iter()
            .partition(|partition| partition.attachment == Attachment::Pending);
        for partition in pending {
            // No other partition can be detached concurrently before this one is.
            if !partition.is_marked(self.root) {
                let finalize = self.detach(&partition, " finalize");
                let what =
                    format!("partition {} is half detached, and not by retention", partition.name);
                *failure = failure.take().or(Some(unsuitable(what, finalize)));
                continue;
            }
            tasks.push_back(Task::Finish(partition));
        }
        let old = self.old(session, attached).await?;
        tasks.extend(old.into_iter().map(|partition| Task::Detach(partition, way)));
        Ok(tasks)
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

    async fn carry_out(&self, session: Session<'_>, task: Task) -> Result<Outcome, Failure> {
        let (partition, options) = match task {
            Task::Drop(detached) => return self.drop(session, &detached).await,
            Task::Finish(partition) => (partition, " finalize"),
            Task::Detach(partition, way) => {
                let Partition { oid, name, owner, .. } = &partition;
                check_owner(session, &format!("partition {name}"), owner)?;
                let rows = self.counted(session, *oid, name, Origin::Partition).await?;
                if !rows.may_go() {
                    tracing::debug!(partition = %name, "stays: {}", rows.why());
                    return Ok(Outcome::Stays);
                }
                self.mark(session, &partition).await?;
                let options = match way {
                    Detaching::Concurrently => " concurrently",
                    Detaching::Locking => "",
                };
                (partition, options)
            }
        };
        // Alone in its message: in a transaction, PostgreSQL refuses it.
        session.execute(&self.detach(&partition, options)).await?;
        let Partition { oid, name, .. } = partition;
        self.drop(session, &Detached { oid, name }).await
    }

    fn detach(&self, partition: &Partition, options: &str) -> String {
        let (root, partition) = (self.target.quoted(), partition.quoted());
        format!("alter table {root} detach partition {partition}{options}")
    }

    async fn mark(&self, session: Session<'_>, partition: &Partition) -> Result<(), Failure> {
        if partition.is_marked(self.root) {
            return Ok(());
        }
        let before = partition.comment.as_deref().unwrap_or_default();
        let comment = format!(
            "{}{} is detached, and dropped when all of it is delivered\n{before}",
            mark(self.root),
            partition.name
        );
        let (table, comment) = (partition.quoted(), quote_literal(comment.trim_end()));
        session.execute(&format!("comment on table {table} is {comment}")).await
    }

    /// Reads it in a transaction that refuses to leave rows out.
    pub(super) async fn counted(
        &self,
        session: Session<'_>,
        oid: u32,
        name: &TableName,
        origin: Origin,
    ) -> Result<Rows, Failure> {
        session.execute(BEGIN).await?;
        let rows = check::count(session, &self.rule(), oid, name, origin).await;
        session.execute("rollback").await?;
        rows
    }

    /// Drops a table that was a partition, unless a row of it must stay. Whoever wrote to it has
    /// ended when it is locked, and the statement behind that sees what was written.
    async fn drop(&self, session: Session<'_>, detached: &Detached) -> Result<Outcome, Failure> {
        let Detached { oid, name } = detached;
        let table = quote_table(name);
        let lock = format!("{BEGIN}; lock table {table} in access exclusive mode");
        let dropped = async {
            session.execute(&lock).await?;
            let rows = check::count(session, &self.rule(), *oid, name, Origin::Detached).await?;
            if rows.may_go() {
                session.execute(&format!("drop table {table}; commit")).await?;
            }
            Ok(rows)
        };
        let dropped: Result<Rows, Failure> = dropped.await;
        let rows = match dropped {
            Ok(rows) if rows.may_go() => rows,
            Ok(rows) => {
                session.execute("rollback").await?;
                return Err(self.kept(detached, rows));
            }
            Err(failure) => {
                session.execute("rollback").await?;
                let is_plain = failure.case.is_none() && failure.code != Code::ServerUnreachable;
                return Err(if is_plain {
                    kept(name, &failure.message, format!("drop table {table}"))
                } else {
                    failure
                });
            }
        };
        tracing::info!(
            table = %self.target.name, partition = %name, rows = rows.all,
            "dropped a delivered partition"
        );
        Ok(Outcome::Dropped(rows.all))
    }

    fn kept(&self, detached: &Detached, rows: Rows) -> Failure {
        let (root, table) = (self.target.quoted(), quote_table(&detached.name));
        let statements = if rows.strange > 0 {
            format!(
                "select * from {table} shows them; insert those that are events into {root} again, \
                 and then: drop table {table}"
            )
        } else {
            format!(
                "nothing, if they are delivered soon: the next sweep drops it; outbox-router \
                 status says who is behind, and outbox-router dead-letters list what is held; to \
                 keep it: comment on table {table} is null"
            )
        };
        kept(&detached.name, &rows.why(), statements)
    }
}

/// Counting takes as long as it takes; and row security must not leave rows out.
pub(super) const BEGIN: &str = "begin; set local statement_timeout = 0; set local row_security = off; \
                     set local enable_seqscan = on";

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
