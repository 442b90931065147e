//! Rows that are removed after they were delivered, in the metrics and in `/status.json`.

use std::time::Duration;

use relay::Failure;
use serde::Serialize;

use super::{
    epoch::epoch,
    exposition::{Page, Type},
    reason::Reason,
};
use crate::{
    monitor::{rates::number, tables::TableSize},
    retention::{RetentionReport, TableReport},
};

/// What retention does.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RetentionView {
    /// Whether rows are removed at all.
    pub on: bool,
    /// How long rows are kept at least, in seconds; `null` where retention is off.
    pub keep_seconds: Option<f64>,
    /// When a sweep over all tables last ended without an error, in seconds of the epoch; before
    /// the first, when the process started. `null` where retention is off.
    pub last_success: Option<f64>,
    /// Sweeps that failed since the start of the process.
    pub errors: u64,
    /// Why the last sweep failed.
    pub failure: Option<Reason>,
    /// Why nothing is removed now, although nothing failed.
    pub waits: Option<&'static str>,
    /// Closed events and decisions, or abandoned rows of polled tables, that were removed since the
    /// start of the process.
    pub abandoned_removed: u64,
    /// The tables.
    pub tables: Vec<RetentionTableView>,
}

/// A table.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RetentionTableView {
    /// Its name.
    pub table: String,
    /// Rows removed since the start of the process.
    pub removed: u64,
    /// Of its oldest rows, those that stay because they were written before the table, or their
    /// partition, was an outbox of the pipeline.
    pub older: u64,
    /// Its rows, as PostgreSQL estimates them.
    pub rows: u64,
    /// Its bytes on disk, with its indexes.
    pub bytes: u64,
    /// The age of its oldest row.
    pub oldest_seconds: f64,
}

impl RetentionView {
    /// What was reported last. `keep` is `None` where retention is off.
    pub(crate) fn of(
        keep: Option<Duration>,
        report: &RetentionReport,
        reason: impl Fn(&Failure) -> Reason,
    ) -> Self {
        let RetentionReport { tables, errors, last_success, failure, waits, abandoned } = report;
        let table =
            |TableReport { name, removed, older, figures }: &TableReport| RetentionTableView {
                table: name.to_string(),
                removed: *removed,
                older: *older,
                rows: figures.rows,
                bytes: figures.bytes,
                oldest_seconds: figures.oldest_seconds,
            };
        Self {
            on: keep.is_some(),
            keep_seconds: keep.map(|keep| keep.as_secs_f64()),
            last_success: keep.map(|_| epoch(*last_success).as_secs_f64()),
            errors: *errors,
            failure: failure.as_ref().map(reason),
            waits: *waits,
            abandoned_removed: *abandoned,
            tables: tables.iter().map(table).collect(),
        }
    }
}

const ROWS: (&str, &str) =
    ("outbox_table_rows", "Rows of an outbox table, as PostgreSQL estimates them.");
const BYTES: (&str, &str) =
    ("outbox_table_bytes", "Bytes of an outbox table on disk, with its indexes.");

/// Where retention is on, all of these series exist from the start, so that an alert sees their
/// first increase. Where it is off there are only the sizes of the tables, which the monitor or the
/// survey reads, so that a table that nobody empties is seen.
pub(crate) fn metrics(
    page: &mut Page,
    keep: Option<Duration>,
    report: &RetentionReport,
    sizes: &[TableSize],
) {
    let Some(keep) = keep else { return of_sizes(page, sizes) };
    let RetentionReport { tables, errors, last_success, .. } = report;
    let named: Vec<(String, &TableReport)> =
        tables.iter().map(|table| (table.name.to_string(), table)).collect();
    let mut family = |name, kind, help: &str, value: fn(&TableReport) -> f64| {
        let mut family = page.family(name, kind, help);
        for (table, report) in &named {
            family.float(&[("table", table)], value(report));
        }
    };
    family(
        "outbox_retention_deleted_total",
        Type::Counter,
        "Rows that were deleted from an outbox table, or moved into its archive, after their delivery.",
        |table| number(table.removed),
    );
    family(ROWS.0, Type::Gauge, ROWS.1, |table| number(table.figures.rows));
    family(BYTES.0, Type::Gauge, BYTES.1, |table| number(table.figures.bytes));
    family(
        "outbox_table_oldest_row_seconds",
        Type::Gauge,
        "Age of the oldest row of an outbox table, by its time column; 0 when it is empty.",
        |table| table.figures.oldest_seconds,
    );
    page.family("outbox_retention_errors_total", Type::Counter, "Sweeps that failed.")
        .whole(&[], *errors);
    page.gauge_float(
        "outbox_retention_last_success_timestamp_seconds",
        "When a sweep over all tables last ended without an error; before the first, when the process started.",
        epoch(*last_success).as_secs_f64(),
    );
    page.gauge_float(
        "outbox_retention_keep_seconds",
        "Configured: how long rows are kept at least.",
        keep.as_secs_f64(),
    );
}

fn of_sizes(page: &mut Page, tables: &[TableSize]) {
    if tables.is_empty() {
        return;
    }
    let mut family = |(name, help), value: fn(&TableSize) -> u64| {
        let mut family = page.family(name, Type::Gauge, help);
        for table in tables {
            family.whole(&[("table", &table.name.to_string())], value(table));
        }
    };
    family(ROWS, |table| table.rows);
    family(BYTES, |table| table.bytes);
}

#[cfg(test)]
mod tests {
    use relay::TableName;

    use super::*;

    #[test]
    fn without_retention_the_sizes_are_exported_under_the_same_names() {
        let name = TableName { schema: "public".to_owned(), name: "outbox".to_owned() };
        let mut page = Page::new(&[("pipeline", "shop")]);
        of_sizes(&mut page, &[TableSize { name, rows: 7, bytes: 8_192 }]);
        let text = page.into_text();
        for line in [
            r#"outbox_table_rows{pipeline="shop",table="public.outbox"} 7"#,
            r#"outbox_table_bytes{pipeline="shop",table="public.outbox"} 8192"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }
}
