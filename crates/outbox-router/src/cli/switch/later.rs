//! Pending rows that are not to be sent yet: their time has not come, or another program has
//! claimed them. A switch to the stream waits for those that are older than the slot.

use std::time::Duration;

use relay::{Case, Failure, Name};

use super::Switching;
use crate::{cli::TaskError, polling::sql::PolledTable};

/// Such rows of a table.
struct Later {
    rows: i64,
    /// When the last of them may be sent.
    at: Option<String>,
}

impl Switching<'_> {
    /// Looks at the pending rows that `of` counts, all or those that are older than the slot.
    ///
    /// # Errors
    /// Rows are not to be sent within `wait`, nor within a lease (P043).
    pub(super) async fn refuse_later(
        &self,
        tables: &[PolledTable],
        of: impl Fn(&PolledTable, Duration) -> String,
        wait: Duration,
    ) -> Result<(), TaskError> {
        // For so long workers of this pipeline claim the rows that they are sending.
        let within = wait.max(self.config.polling.lease);
        for table in tables {
            let Later { rows, at } = self.later(&of(table, within)).await?;
            if let Some(at) = at {
                let what = format!(
                    "pending rows of {} are not to be sent yet: {rows}, the last not before {at}",
                    table.name()
                );
                let failure = Failure::of(Case::SwitchLater, what);
                return Err(failure.naming(Name::Table, table.name()).into());
            }
        }
        Ok(())
    }

    /// What of the rows that are older than the slot is waited for, as the end of a sentence.
    pub(super) async fn says_later(&self, tables: &[PolledTable]) -> Result<String, TaskError> {
        let mut said = String::new();
        for table in tables {
            let later = self.later(&table.switched_after(Duration::ZERO)).await?;
            if let Some(at) = later.at {
                let (rows, name) = (later.rows, table.name());
                said.push_str(&format!("; {rows} of {name} are not to be sent before {at}"));
            }
        }
        Ok(said)
    }

    async fn later(&self, query: &str) -> Result<Later, TaskError> {
        let row = self.books.query_one(query, &[]).await?;
        Ok(Later { rows: row.try_get(0)?, at: row.try_get(1)? })
    }
}
