//! What a survey has found.

use std::time::Duration;

use relay::{Failure, TableName};
use tokio::time::Instant;

use crate::{
    monitor::{Polled, tables::TableSize},
    polling::sql::{Holder, RowCount, TableSurvey},
};

/// What the survey publishes. Before its first reading it is empty.
#[derive(Debug, Clone, Default)]
pub struct SurveyReport {
    /// The tables, in the order of the configuration, as they were read last.
    pub tables: Vec<SurveyedTable>,
    /// When they were read.
    pub read: Option<Polled>,
    /// Why the last attempt gave nothing.
    pub failure: Option<Failure>,
    /// When the survey last tried: one that hangs does not.
    pub ticked_at: Option<Instant>,
}

/// One table.
#[derive(Debug, Clone)]
pub struct SurveyedTable {
    /// Its name.
    pub name: TableName,
    /// How many rows wait for what, or why they could not be counted.
    pub figures: Result<TableSurvey, Failure>,
    /// How large it is; `None` where that was not read.
    pub size: Option<TableSize>,
    /// Who holds shards of it, or why that could not be read.
    pub holders: Result<Vec<Holder>, Failure>,
    /// Why nobody may poll it: it is being handed to the stream, or was.
    pub handed: Option<Failure>,
}

impl RowCount {
    /// What was counted.
    pub const fn rows(self) -> u64 {
        match self {
            Self::Exactly(rows) | Self::AtLeast(rows) => rows,
        }
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        let rows = self.rows().saturating_add(other.rows());
        match (self, other) {
            (Self::Exactly(_), Self::Exactly(_)) => Self::Exactly(rows),
            (Self::Exactly(_) | Self::AtLeast(_), Self::Exactly(_) | Self::AtLeast(_)) => {
                Self::AtLeast(rows)
            }
        }
    }
}

impl TableSurvey {
    /// For how long the first row has waited whose time has come.
    pub fn oldest(&self) -> Option<Duration> {
        self.oldest_seconds.and_then(|age| Duration::try_from_secs_f64(age).ok())
    }

    /// Where the time of no row has come: in what time that of the first one comes.
    pub fn due_in(&self) -> Option<Duration> {
        let until = self.oldest_seconds.filter(|age| *age < 0.0)?;
        Duration::try_from_secs_f64(-until).ok()
    }

    /// How many pending rows are known to wait for nothing but their time. Where one is due, that
    /// is not known of the others.
    pub fn not_due(&self) -> u64 {
        match self.due_in() {
            Some(_) => self.pending.rows().saturating_sub(self.failed.rows()),
            None => 0,
        }
    }
}

impl Holder {
    /// Whether its lease has not ended.
    pub fn is_live(&self) -> bool {
        self.lasts_seconds > 0.0
    }
}

/// What the tables have together; `None` where none could be counted.
pub(crate) fn sum(tables: &[SurveyedTable]) -> Option<TableSurvey> {
    let figures = tables.iter().filter_map(|table| table.figures.as_ref().ok());
    figures.copied().reduce(|sum, next| TableSurvey {
        pending: sum.pending.plus(next.pending),
        oldest_seconds: match (sum.oldest_seconds, next.oldest_seconds) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        },
        failed: sum.failed.plus(next.failed),
        abandoned: sum.abandoned.plus(next.abandoned),
        processing: sum.processing.plus(next.processing),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_exact_where_both_parts_are() {
        use RowCount::{AtLeast, Exactly};
        assert_eq!(Exactly(2).plus(Exactly(3)), Exactly(5));
        assert_eq!(Exactly(2).plus(AtLeast(3)), AtLeast(5));
        assert_eq!(AtLeast(2).plus(Exactly(3)), AtLeast(5));
    }

    #[test]
    fn rows_are_not_due_where_the_time_of_none_has_come() {
        let mut rows = TableSurvey {
            pending: RowCount::Exactly(5),
            oldest_seconds: Some(-60.0),
            failed: RowCount::Exactly(2),
            abandoned: RowCount::Exactly(7),
            processing: RowCount::Exactly(0),
        };
        assert_eq!((rows.not_due(), rows.oldest()), (3, None));
        assert_eq!(rows.due_in(), Some(Duration::from_secs(60)));
        rows.oldest_seconds = Some(0.0);
        assert_eq!((rows.not_due(), rows.due_in()), (0, None));
        assert_eq!(rows.oldest(), Some(Duration::ZERO));
        rows.oldest_seconds = None;
        assert_eq!((rows.not_due(), rows.due_in(), rows.oldest()), (0, None, None));
    }
}
