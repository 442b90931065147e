//! What the task publishes, for metrics and `/status.json`.

use std::time::SystemTime;

use relay::{Failure, TableName};

use super::settings::RetentionSettings;

/// What the task publishes.
#[derive(Debug, Clone)]
pub struct RetentionReport {
    /// One for each table, in the order of the configuration; none while retention is off.
    pub tables: Vec<TableReport>,
    /// Sweeps that failed since the start of the process.
    pub errors: u64,
    /// When a sweep over all tables last ended without an error; before the first, when the process
    /// started.
    pub last_success: SystemTime,
    /// Why the last sweep failed; `None` when it did not.
    pub failure: Option<Failure>,
    /// Why nothing is removed now, although nothing failed.
    pub waits: Option<&'static str>,
    /// Closed events and decisions, or abandoned rows of polled tables, that were removed since the
    /// start of the process.
    pub abandoned: u64,
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableReport {
    /// Its name.
    pub name: TableName,
    /// Rows removed since the start of the process.
    pub removed: u64,
    /// Of the oldest rows, those that were written before the table, or their partition, was an
    /// outbox of the pipeline: they stay.
    pub older: u64,
    /// Its size, as it was read last.
    pub figures: TableFigures,
}

/// The size of a table; all zero before it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TableFigures {
    /// Its rows, as PostgreSQL estimates them.
    pub rows: u64,
    /// Its bytes on disk, with its indexes.
    pub bytes: u64,
    /// The age of the oldest row, by its time column.
    pub oldest_seconds: f64,
}

impl RetentionReport {
    /// The report of a process that starts at this moment.
    pub fn initial(settings: &RetentionSettings, now: SystemTime) -> Self {
        let tables = if settings.is_on() { settings.tables.as_slice() } else { &[] };
        Self::at_start(tables.iter().map(|outbox| outbox.name.clone()), now)
    }

    /// The report of a process that starts at this moment, and removes rows of these tables.
    pub(crate) fn at_start(tables: impl Iterator<Item = TableName>, now: SystemTime) -> Self {
        let table =
            |name| TableReport { name, removed: 0, older: 0, figures: TableFigures::default() };
        Self {
            tables: tables.map(table).collect(),
            errors: 0,
            last_success: now,
            failure: None,
            waits: None,
            abandoned: 0,
        }
    }
}
