//! Commit positions, read from a second slot with another output plugin.
//!
//! To show that the router's slot was confirmed too early, one must know where each transaction's
//! commit ends. The tracker learns it from `test_decoding`, through SQL, without the product's
//! decoder.

use std::collections::BTreeMap;

use tokio_postgres::Client;
use tokio_postgres::types::PgLsn;

use crate::postgres::create_slot;

/// A slot that watches commits, and what it has seen.
#[derive(Debug)]
pub struct CommitTracker {
    slot: String,
    commits: BTreeMap<u32, PgLsn>,
}

impl CommitTracker {
    /// Creates the slot: commits from now on are seen.
    ///
    /// # Errors
    ///
    /// Fails when the slot cannot be created.
    pub async fn create(client: &Client, slot: &str) -> anyhow::Result<Self> {
        create_slot(client, slot, "test_decoding").await?;
        Ok(Self { slot: slot.to_owned(), commits: BTreeMap::new() })
    }

    /// Reads what was committed since the last call. The slot is advanced only after the rows have
    /// arrived, so nothing is lost when the server dies in between.
    ///
    /// # Errors
    ///
    /// Fails when the server cannot be reached.
    pub async fn drain(&mut self, client: &Client) -> anyhow::Result<()> {
        // The row of a commit has the position after the commit: what a consumer has to confirm.
        let rows = client
            .query(
                "SELECT lsn, xid::text::int8 FROM pg_logical_slot_peek_changes($1::text::name, \
                 NULL, NULL, 'include-xids', '1', 'skip-empty-xacts', '1') \
                 WHERE data LIKE 'COMMIT %'",
                &[&self.slot],
            )
            .await?;
        for row in &rows {
            self.commits.insert(u32::try_from(row.get::<_, i64>(1))?, row.get(0));
        }
        if let Some(last) = rows.last() {
            client
                .query_one(
                    "SELECT pg_replication_slot_advance($1::text::name, $2)",
                    &[&self.slot, &last.get::<_, PgLsn>(0)],
                )
                .await?;
        }
        Ok(())
    }

    /// The position after the commit of each transaction, by transaction id.
    pub fn commits(&self) -> &BTreeMap<u32, PgLsn> {
        &self.commits
    }
}
