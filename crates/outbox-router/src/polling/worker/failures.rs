//! Rows that could not be delivered, in the log: a line for each, with its id, its code and what to
//! type.

use relay::{
    TableName,
    polling::{FailedRow, RowOutcome},
};

/// So many lines of one batch; the others are counted.
const LINES_MAX: usize = 20;

/// What was written of rows is committed.
pub(super) fn announce(table: &TableName, rows: &[FailedRow]) {
    rows.iter().take(LINES_MAX).for_each(|row| announce_row(table, row));
    if let Some(more) = rows.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
        tracing::warn!(
            table = %table,
            hint = "outbox-router dead-letters list, and with --waiting",
            "{more} rows more of this batch could not be delivered"
        );
    }
}

fn announce_row(table: &TableName, row: &FailedRow) {
    let FailedRow { id, attempts, error, outcome } = row;
    let id: Vec<&str> = id.0.iter().map(AsRef::as_ref).collect();
    let id = id.join(",");
    match outcome {
        RowOutcome::Abandon => tracing::error!(
            table = %table,
            id,
            code = %error.code,
            hint = format!("outbox-router dead-letters show --id {id}"),
            "a row is given up after {attempts} attempts: {error:#}"
        ),
        RowOutcome::Retry(after) => tracing::warn!(
            table = %table,
            id,
            code = %error.code,
            hint = format!("outbox-router explain {}", error.code),
            "attempt {attempts} to deliver a row failed, and the next follows in {:.1} s: {error:#}",
            after.as_secs_f64()
        ),
    }
}
