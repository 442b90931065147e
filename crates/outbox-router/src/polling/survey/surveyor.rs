//! Who reads the survey: the tables one after the other, over one connection.

use std::time::Duration;

use relay::{Class, Failure, TableName, polling::TableIndex};
use tokio::time::Instant;

use super::report::{SurveyedTable, stranded};
use crate::{
    monitor::{Connect, tables::TableSize},
    polling::sql::{Database, Shares, SqlSettings, TableConfig, TableSurvey},
    retention::TableFigures,
};

/// For how long a description of a table counts: a column may have been added since.
const DESCRIBED_FOR: Duration = Duration::from_secs(60);

/// What is surveyed, and how often.
#[derive(Debug, Clone)]
pub(crate) struct SurveySettings {
    /// The tables, in the order of the configuration.
    pub(crate) tables: Vec<TableConfig>,
    /// What statements need to know of this worker.
    pub(crate) sql: SqlSettings,
    /// Between two readings: `monitor.interval`.
    pub(crate) interval: Duration,
}

/// See the module's header.
pub(crate) struct Surveyor<C> {
    database: Database<C>,
    tables: Vec<Known>,
}

/// A table, and since when it is known what it looks like.
struct Known {
    name: TableName,
    described_at: Option<Instant>,
}

impl<C: Connect> Surveyor<C> {
    /// Opens no connection yet.
    pub(crate) fn new(settings: SurveySettings, connect: C) -> Self {
        let SurveySettings { tables, sql, interval: _ } = settings;
        let known = tables.iter().map(|table| {
            let name = table.outbox.name.clone();
            Known { name, described_at: None }
        });
        let known = known.collect();
        Self { database: Database::new(connect, tables, sql), tables: known }
    }

    /// Reads every table. One that cannot be read has its own failure.
    ///
    /// # Errors
    /// PostgreSQL cannot be asked.
    pub(crate) async fn read(&mut self) -> Result<Vec<SurveyedTable>, Failure> {
        let Self { database, tables } = self;
        let mut read = Vec::with_capacity(tables.len());
        // Where the tables of leases cannot be read, the holders of each table say it.
        let former = unless_broken(database.former().await)?.unwrap_or_default();
        for (place, known) in tables.iter_mut().enumerate() {
            let figures = figures(database, TableIndex(place), known).await;
            let figures = unless_broken(figures)?;
            let size = match &figures {
                Ok(_) => unless_broken(size(database, TableIndex(place), known).await)?.ok(),
                Err(_) => None,
            };
            let (holders, handed) = match unless_broken(database.shares(&known.name).await)? {
                Ok(Shares { holders, handed }) => (Ok(holders), handed),
                Err(failure) => (Err(failure), None),
            };
            let stranded = figures.as_ref().ok().and_then(|figures| stranded(&known.name, figures));
            let of_former = || former.iter().find(|(table, _)| table.0 == place);
            let stranded = stranded.or_else(|| of_former().map(|(_, failure)| failure.clone()));
            let name = known.name.clone();
            read.push(SurveyedTable { name, figures, size, holders, handed, stranded });
        }
        Ok(read)
    }
}

async fn figures<C: Connect>(
    database: &mut Database<C>,
    table: TableIndex,
    known: &mut Known,
) -> Result<TableSurvey, Failure> {
    if known.described_at.is_none_or(|at| at.elapsed() >= DESCRIBED_FOR) {
        known.described_at = None;
        database.describe(table).await?;
        known.described_at = Some(Instant::now());
    }
    let figures = database.survey(table).await;
    if figures.is_err() {
        // It may have been altered.
        known.described_at = None;
    }
    figures
}

async fn size<C: Connect>(
    database: &mut Database<C>,
    table: TableIndex,
    known: &Known,
) -> Result<TableSize, Failure> {
    let TableFigures { rows, bytes, .. } = database.measure(table, None).await?;
    Ok(TableSize { name: known.name.clone(), rows, bytes })
}

/// Tells the failure of one table from that of the connection, by which no table can be read.
fn unless_broken<T>(read: Result<T, Failure>) -> Result<Result<T, Failure>, Failure> {
    match read {
        Err(failure) if failure.class() == Class::Transport => Err(failure),
        read => Ok(read),
    }
}
