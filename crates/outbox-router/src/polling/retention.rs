//! Retention of polled tables: rows that are published, or were given up, leave after a while.
//!
//! The table's own marks say which rows those are, so this needs to know nothing of the worker. It
//! has a connection of its own, so that neither a lock nor a slow statement delays a row. Several
//! processes may do it at once: a row that another one has locked is left to it.

use std::{convert::Infallible, time::Duration};

use relay::{Code, Failure, TableName, polling::TableIndex};
use tokio::time::sleep;

use super::sql::{Database, Leaves, PolledTable, Removal, RemovalRules, SqlSettings, TableConfig};
use crate::{codes::hint, monitor::Connect};

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

/// How many rows of a table have left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    /// Published ones.
    pub published: u64,
    /// Those that were given up.
    pub abandoned: u64,
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
    pub async fn count(&mut self, table: TableIndex) -> Result<Left, Failure> {
        let removal = self.removal(table).await?;
        Ok(Left {
            published: self.database.count(table, &removal, Leaves::Published).await?,
            abandoned: self.database.count(table, &removal, Leaves::Abandoned).await?,
        })
    }

    /// Removes the rows of a table that may leave, and counts them in `left`.
    ///
    /// # Errors
    /// As [`Self::count`]. What was removed before stays so.
    pub async fn sweep(&mut self, table: TableIndex, left: &mut Left) -> Result<(), Failure> {
        let removal = self.removal(table).await?;
        for which in [Leaves::Published, Leaves::Abandoned] {
            loop {
                let removed = self.database.remove(table, &removal, which).await?;
                match which {
                    Leaves::Published => left.published += removed,
                    Leaves::Abandoned => left.abandoned += removed,
                }
                if removed < removal.batch() {
                    break;
                }
                sleep(self.settings.pause).await;
            }
        }
        Ok(())
    }

    async fn removal(&mut self, table: TableIndex) -> Result<Removal, Failure> {
        // A column or an index may have been added since the last sweep.
        self.database.describe(table).await?;
        let known: Option<&PolledTable> = self.database.table(table);
        let known = known.ok_or_else(|| {
            Failure::new(Code::Polling, "a table was not described before it was swept")
        })?;
        Removal::of(known, &self.settings.rules)
    }
}

/// Sweeps again and again, for ever.
pub async fn run<C: Connect>(settings: SweepSettings, connect: C) -> Infallible {
    let interval = settings.interval;
    let mut sweeper = Sweeper::new(settings, connect);
    let tables = sweeper.tables();
    // What was said of each table: a failure that stays is logged once.
    let mut said: Vec<Option<String>> = vec![None; tables.len()];
    loop {
        for ((table, name), said) in tables.iter().zip(&mut said) {
            let mut left = Left::default();
            let swept = sweeper.sweep(*table, &mut left).await;
            if left != Left::default() {
                let Left { published, abandoned } = left;
                tracing::info!(table = %name, published, abandoned, "rows were removed");
            }
            match swept {
                Ok(()) => *said = None,
                Err(failure) => {
                    let text = failure.message_with_causes();
                    if said.as_ref() != Some(&text) {
                        tracing::warn!(
                            code = %failure.code, hint = hint(&failure), table = %name,
                            "rows are not removed: {text}"
                        );
                        *said = Some(text);
                    }
                }
            }
        }
        sleep(interval).await;
    }
}
