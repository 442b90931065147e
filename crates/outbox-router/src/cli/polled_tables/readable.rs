//! The tables that are asked for, as far as they can be read. One that cannot be polled hides
//! nothing of another.

use std::io;

use relay::{Failure, TableName};
use serde_json::{Value, json};
use tokio_postgres::Client;

use super::settings;
use crate::{
    cli::{TaskError, connect, print_failure::print_failure},
    codes::hint,
    config::Config,
    polling::sql::PolledTable,
};

/// The tables, as this command's role sees them.
#[derive(Debug, Default)]
pub(in crate::cli) struct Tables {
    pub(in crate::cli) readable: Vec<PolledTable>,
    pub(in crate::cli) failed: Vec<Failed>,
}

/// A table that cannot be read.
#[derive(Debug)]
pub(in crate::cli) struct Failed {
    pub(in crate::cli) table: TableName,
    failure: Failure,
}

impl Tables {
    /// Reads all, or the named one alone.
    ///
    /// # Errors
    /// The connection has ended.
    pub(in crate::cli) async fn read(
        client: &Client,
        named: Option<&TableName>,
        config: &Config,
    ) -> Result<Self, TaskError> {
        let settings = settings(config);
        let mut tables = Self::default();
        for table in config.polled_tables() {
            let name = &table.outbox.name;
            if named.is_some_and(|named| named != name) {
                continue;
            }
            match PolledTable::read(client, &table, &settings).await {
                Ok(read) => tables.readable.push(read),
                Err(failure) => tables.failed.push(Failed::of(name, failure, client).await?),
            }
        }
        Ok(tables)
    }

    /// All of them.
    ///
    /// # Errors
    /// One cannot be read.
    pub(in crate::cli) fn all(self) -> Result<Vec<PolledTable>, TaskError> {
        match self.failed.into_iter().next() {
            Some(failed) => Err(failed.failure.into()),
            None => Ok(self.readable),
        }
    }

    /// Whether it says anything that no row was found.
    pub(in crate::cli) fn is_any_read(&self) -> bool {
        self.failed.is_empty() || !self.readable.is_empty()
    }

    /// Nothing more is read of these tables.
    pub(in crate::cli) fn give_up(&mut self, failed: Vec<Failed>) {
        self.readable.retain(|table| !failed.iter().any(|one| one.table == *table.name()));
        self.failed.extend(failed);
    }

    /// Why tables cannot be read, with hints.
    pub(in crate::cli) fn print_failures(
        &self,
        out: &mut (dyn io::Write + Send),
    ) -> io::Result<()> {
        let mut printed: Vec<&Failure> = Vec::new();
        for Failed { failure, .. } in &self.failed {
            // What is wrong with the server is the same for each table.
            if !printed.contains(&failure) {
                print_failure(out, failure)?;
                printed.push(failure);
            }
        }
        Ok(())
    }
}

impl Failed {
    /// After this failure; the session is ready for the next table.
    ///
    /// # Errors
    /// The connection has ended, and no other table can be read.
    pub(in crate::cli) async fn of(
        table: &TableName,
        failure: Failure,
        client: &Client,
    ) -> Result<Self, TaskError> {
        let failure = connect::denied(failure);
        // A statement that failed leaves its transaction open, and the next would fail with it.
        match client.batch_execute("rollback").await {
            Ok(()) => Ok(Self { table: table.clone(), failure }),
            Err(_) => Err(failure.into()),
        }
    }

    /// For programs.
    pub(in crate::cli) fn json(&self) -> Value {
        json!({
            "table": self.table.to_string(),
            "code": self.failure.code.as_str(),
            "error": self.failure.message_with_causes(),
            "hint": hint(&self.failure),
        })
    }
}
