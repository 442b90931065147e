//! How a transaction of events is made: its isolation level, its statements, and its end.

use rand::RngExt as _;
use rand::rngs::StdRng;

use crate::scenario::{Layout, Removal, Scenario, TimeType, Times};
use crate::table::{PARTITION_SECONDS, RowTime};

/// A kind of statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statement {
    /// INSERT of one row.
    Single,
    /// INSERT of several rows.
    MultiRow,
    /// INSERT … SELECT that takes a while for each row.
    SlowSelect,
    /// COPY that takes a while for each row.
    Copy,
    /// INSERT whose row a savepoint takes back, and another that stays.
    Savepoint,
    /// INSERT of a row that is deleted in the same transaction.
    InsertDelete,
    /// INSERT by the name of the oldest partition.
    ByPartition,
    /// A row that cannot be delivered.
    Poison,
}

/// An isolation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    pub(super) const fn sql(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Commit,
    Rollback,
    CommitPrepared,
    RollbackPrepared,
}

/// A transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) isolation: Isolation,
    /// Milliseconds for which a snapshot of the table is held before the first INSERT.
    pub(super) snapshot_millis: Option<u64>,
    pub(super) statements: Vec<Statement>,
    /// The longest pause before a statement, in milliseconds.
    pub(super) think_millis: u64,
    pub(super) ending: Ending,
}

impl Plan {
    pub(super) fn draw(scenario: &Scenario, random: &mut StdRng) -> Self {
        // With a table that is partitioned by time, what is open for long is what matters.
        let long = if scenario.removal == Removal::DropPartitions { 4 } else { 12 };
        let is_long = random.random_ratio(1, long);
        let isolation = match random.random_range(0..10) {
            0..5 => Isolation::ReadCommitted,
            5..8 => Isolation::RepeatableRead,
            _ => Isolation::Serializable,
        };
        let has_snapshot = isolation != Isolation::ReadCommitted && random.random_ratio(2, 3);
        let most = if is_long { 3000 } else { 100 };
        let ending = match random.random_range(0..20) {
            0 => Ending::Rollback,
            1..3 => Ending::CommitPrepared,
            3 => Ending::RollbackPrepared,
            _ => Ending::Commit,
        };
        let count = if is_long { random.random_range(2..=6) } else { random.random_range(1..=3) };
        Self {
            isolation,
            snapshot_millis: has_snapshot.then(|| random.random_range(0..=most)),
            statements: (0..count).map(|_| statement(scenario, random)).collect(),
            think_millis: if is_long { 1500 } else { 20 },
            ending,
        }
    }
}

fn statement(scenario: &Scenario, random: &mut StdRng) -> Statement {
    match random.random_range(0..20) {
        0..3 => Statement::MultiRow,
        3..5 => Statement::SlowSelect,
        5..8 => Statement::Copy,
        8..10 => Statement::Savepoint,
        10..12 if scenario.has_deleted_events() => Statement::InsertDelete,
        12..14 if matches!(scenario.layout, Layout::ByTime(_)) => Statement::ByPartition,
        14 if scenario.has_poison => Statement::Poison,
        _ => Statement::Single,
    }
}

/// A time for a row.
pub(super) fn time(scenario: &Scenario, random: &mut StdRng) -> RowTime {
    // A date is past when its day is over.
    let unit = if scenario.time == TimeType::Date { 86_400 } else { 1 };
    let recent = i64::from(scenario.keep_seconds + 2 * PARTITION_SECONDS) * unit;
    match (scenario.times, random.random_range(0..10)) {
        (Times::Present, _) | (_, 0..4) => RowTime::Default,
        (_, 4) => RowTime::Clock,
        (Times::Recent, _) => RowTime::Shifted(-random.random_range(0..=recent)),
        (Times::Any, 5..7) => RowTime::Shifted(-random.random_range(0..=recent)),
        (Times::Any, 7) => RowTime::Shifted(-random.random_range(0..=40 * 86_400)),
        (Times::Any, 8) => RowTime::Shifted(random.random_range(0..=86_400)),
        (Times::Any, _) if scenario.has_null_times() => RowTime::Null,
        (Times::Any, _) => RowTime::Default,
    }
}
