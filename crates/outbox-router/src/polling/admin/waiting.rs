//! Rows that could not be delivered and wait for another attempt. Where a table has columns for
//! attempts, the survey counts them; where it has not, the worker alone knows of them.

use relay::{
    ErrorClass, Failure,
    polling::{PolledTableReport, PollerReport},
};

use crate::polling::survey::SurveyReport;

/// See the module's header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting<'a> {
    /// How many.
    pub(super) rows: u64,
    /// Why one of them could not be delivered; `None` where this worker has tried none of them.
    pub(super) failure: Option<&'a Failure>,
}

impl<'a> Waiting<'a> {
    /// Those of all tables.
    pub(super) fn of(report: &'a PollerReport, survey: &SurveyReport) -> Self {
        let rows = report.tables.iter().map(|table| of_table(table, survey)).sum();
        let waits = report.tables.iter().filter(|table| table.waiting > 0);
        let mut failures = waits.filter_map(|table| table.failure.as_ref());
        Self { rows, failure: failures.find(|failure| lies_in_row(failure)) }
    }
}

/// Those of one table. What was counted may be of other workers, too, and what this worker knows
/// may be newer. Which rows are known to both is not told, so the larger number is taken.
pub(super) fn of_table(table: &PolledTableReport, survey: &SurveyReport) -> u64 {
    let surveyed = survey.tables.iter().find(|surveyed| surveyed.name == table.name);
    let figures = surveyed.and_then(|surveyed| surveyed.figures.as_ref().ok());
    figures.map_or(0, |figures| figures.failed.rows()).max(table.waiting)
}

/// Whether a failure is of one row, beside which others are delivered, or of a whole table.
pub(super) fn lies_in_row(failure: &Failure) -> bool {
    ErrorClass::of(failure.code).is_some()
}
