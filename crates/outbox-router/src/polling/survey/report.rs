//! What a survey has found.

use std::{fmt::Display, time::Duration};

use relay::{Code, Failure, Name, TableName};
use tokio::time::Instant;

use crate::{
    monitor::{Polled, tables::TableSize},
    polling::sql::{Holder, RowCount, TableSurvey},
    wording,
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
    /// It has rows of whose status nothing is known, or a former table that has its marks has
    /// pending rows.
    pub stranded: Option<Failure>,
}

impl RowCount {
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

    /// In what time the first row is due that waits for nothing but its time.
    pub fn due_in(&self) -> Option<Duration> {
        self.due_in_seconds.and_then(|until| Duration::try_from_secs_f64(until.max(0.0)).ok())
    }
}

impl Holder {
    /// Whether its lease has not ended.
    pub fn is_live(&self) -> bool {
        self.lasts_seconds > 0.0
    }
}

/// Rows of a table of whose status nothing is known.
pub(crate) fn stranded(table: impl Display, figures: &TableSurvey) -> Option<Failure> {
    let rows = match figures.stranded {
        RowCount::Exactly(0) => return None,
        RowCount::Exactly(1) => "1 row of".to_owned(),
        RowCount::Exactly(rows) => format!("{rows} rows of"),
        RowCount::AtLeast(rows) => format!("more than {rows} rows of"),
    };
    let what = format!(
        "{rows} {table} with a status of which outbox.mark knows nothing: not sent, and neither \
         are the later rows of their keys"
    );
    Some(Failure::new(Code::StatusUnknown, what).naming(Name::Table, table))
}

/// What the tables have together; `None` where none could be counted.
pub(crate) fn sum(tables: &[SurveyedTable]) -> Option<TableSurvey> {
    let figures = tables.iter().filter_map(|table| table.figures.as_ref().ok());
    figures.copied().reduce(|sum, next| TableSurvey {
        pending: sum.pending.plus(next.pending),
        not_due: sum.not_due.saturating_add(next.not_due),
        due_in_seconds: either(sum.due_in_seconds, next.due_in_seconds, f64::min),
        ready: sum.ready.saturating_add(next.ready),
        oldest_seconds: either(sum.oldest_seconds, next.oldest_seconds, f64::max),
        failed: sum.failed.plus(next.failed),
        abandoned: sum.abandoned.plus(next.abandoned),
        stranded: sum.stranded.plus(next.stranded),
        processing: sum.processing.plus(next.processing),
    })
}

/// Those of the pending rows that are not due, and in what time the first of them is: for the
/// sentence that says how many are pending.
pub(crate) fn of_which_not_due(rows: u64, first: Option<Duration>) -> String {
    let are = match rows {
        0 => return String::new(),
        1 => "1 is".to_owned(),
        rows => format!("{rows} are"),
    };
    match first.map(wording::roughly) {
        Some(time) => format!(", of which {are} not due before {time} from now"),
        None => format!(", of which {are} not due yet"),
    }
}

/// What is known of one of two, or is chosen where both are known.
fn either(one: Option<f64>, other: Option<f64>, choose: fn(f64, f64) -> f64) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(choose(one, other)),
        (one, other) => one.or(other),
    }
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
    fn a_sum_has_the_oldest_row_and_the_first_that_will_be_due() {
        let mut one = crate::polling::samples::surveyed();
        let figures = one.figures.as_mut().unwrap();
        (figures.not_due, figures.due_in_seconds, figures.ready) = (3, Some(60.0), 2);
        let mut other = one.clone();
        let figures = other.figures.as_mut().unwrap();
        (figures.due_in_seconds, figures.oldest_seconds) = (Some(-0.5), Some(7.0));
        let sum = sum(&[one, other]).unwrap();
        assert_eq!((sum.not_due, sum.ready), (6, 4));
        assert_eq!(sum.due_in(), Some(Duration::ZERO), "it has come since the rows were looked at");
        assert_eq!(sum.oldest(), Some(Duration::from_secs(7)));
    }

    #[test]
    fn a_row_whose_time_never_comes_has_no_time() {
        let mut figures = crate::polling::samples::surveyed().figures.unwrap();
        (figures.not_due, figures.due_in_seconds) = (1, Some(f64::INFINITY));
        assert_eq!(figures.due_in(), None);
    }
}
