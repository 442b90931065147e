//! What removes rows, table by table, for the task beside the worker and for `cleanup`.

use std::time::Duration;

use relay::{Code, Failure, TableName, polling::TableIndex};
use tokio::time::sleep;

use crate::{
    monitor::Connect,
    polling::sql::{Database, PolledTable, Removal, RemovalRules, SqlSettings, TableConfig},
    retention::TableFigures,
};

/// What a sweep is told.
#[derive(Debug, Clone)]
pub struct SweepSettings {
    /// The tables, in the order of the configuration.
    pub tables: Vec<TableConfig>,
    /// How they are polled.
    pub sql: SqlSettings,
    /// What is kept.
    pub rules: RemovalRules,
    /// Between two statements that delete.
    pub pause: Duration,
    /// Between the beginnings of two sweeps.
    pub interval: Duration,
}

/// The tables, and the connection.
pub struct Sweeper<C> {
    database: Database<C>,
    settings: SweepSettings,
}

impl<C: Connect> Sweeper<C> {
    /// Opens no connection yet.
    pub fn new(settings: SweepSettings, connect: C) -> Self {
        let database = Database::new(connect, settings.tables.clone(), settings.sql.clone());
        Self { database, settings }
    }

    pub(super) const fn interval(&self) -> Duration {
        self.settings.interval
    }

    /// The tables, each with its name.
    pub fn tables(&self) -> Vec<(TableIndex, TableName)> {
        let names = self.settings.tables.iter().map(|table| table.outbox.name.clone());
        names.enumerate().map(|(place, name)| (TableIndex(place), name)).collect()
    }

    /// Whether rows of a table can be removed at all.
    ///
    /// # Errors
    /// As [`Self::count`].
    pub async fn check(&mut self, table: TableIndex) -> Result<(), Failure> {
        self.removal(table).await.map(|_| ())
    }

    /// How many rows of a table may leave now.
    ///
    /// # Errors
    /// The table cannot be polled (P041), or no row can be removed from it (P038); the connection
    /// fails.
    pub async fn count(&mut self, table: TableIndex) -> Result<u64, Failure> {
        let removal = self.removal(table).await?;
        self.database.count(table, &removal).await
    }

    /// Reads how large a table is, and how old its oldest row.
    ///
    /// # Errors
    /// The table cannot be polled (P041); the connection fails.
    pub(super) async fn measure(&mut self, table: TableIndex) -> Result<TableFigures, Failure> {
        let removal = self.removal(table).await;
        self.database.measure(table, removal.as_ref().ok()).await
    }

    /// Removes the rows of a table that may leave, and tells of each statement how many have left.
    ///
    /// # Errors
    /// As [`Self::count`]. What was removed before stays so.
    pub async fn sweep(
        &mut self,
        table: TableIndex,
        mut tell: impl FnMut(u64),
    ) -> Result<(), Failure> {
        let removal = self.removal(table).await?;
        loop {
            let removed = self.database.remove(table, &removal).await?;
            tell(removed);
            if removed < removal.batch() {
                return Ok(());
            }
            sleep(self.settings.pause).await;
        }
    }

    async fn removal(&mut self, table: TableIndex) -> Result<Removal, Failure> {
        // A column or an index may have been added since the last sweep.
        self.database.describe(table).await?;
        self.database.refuse_shared(table).await?;
        let known: Option<&PolledTable> = self.database.table(table);
        let known = known.ok_or_else(|| {
            Failure::new(Code::Polling, "a table was not described before it was swept")
        })?;
        Removal::of(known, &self.settings.rules)
    }
}
