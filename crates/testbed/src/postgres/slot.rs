//! Replication slots, as `pg_replication_slots` shows them.

use std::time::Duration;

use anyhow::Context;
use tokio_postgres::Client;
use tokio_postgres::types::PgLsn;

use super::PostgresServer;
use crate::wait::eventually;

/// A replication slot as the server shows it. `None` is the server's NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRow {
    /// Name.
    pub name: String,
    /// Output plugin.
    pub plugin: Option<String>,
    /// Whether a walsender holds it.
    pub active: bool,
    /// The walsender that holds it.
    pub active_pid: Option<i32>,
    /// The oldest WAL it retains.
    pub restart_lsn: Option<PgLsn>,
    /// `confirmed_flush_lsn`: the position that its consumer has confirmed.
    pub confirmed_flush_lsn: Option<PgLsn>,
    /// `reserved`, `extended`, `unreserved` or `lost`.
    pub wal_status: Option<String>,
    /// Bytes that may still be written before it is in danger; NULL without a limit.
    pub safe_wal_size: Option<i64>,
}

/// Creates a logical slot: what is committed from now on is sent through it.
///
/// # Errors
///
/// Fails when the server refuses.
pub async fn create_slot(client: &Client, name: &str, plugin: &str) -> anyhow::Result<()> {
    let made = "SELECT pg_create_logical_replication_slot($1::text::name, $2::text::name)";
    let made = client.query_one(made, &[&name, &plugin]).await;
    made.map(drop).with_context(|| format!("cannot create slot \"{name}\""))
}

impl PostgresServer {
    /// The slot's row in `pg_replication_slots`, or `None` when there is no such slot.
    ///
    /// # Errors
    ///
    /// Fails when the server cannot be reached.
    pub async fn slot(&self, name: &str) -> anyhow::Result<Option<SlotRow>> {
        SlotRow::read(&*self.connect().await?, name).await
    }

    /// The position that a slot's next session starts from.
    ///
    /// # Errors
    ///
    /// Fails when the server cannot be reached, or has no such slot.
    pub async fn confirmed(&self, slot: &str) -> anyhow::Result<PgLsn> {
        SlotRow::existing(&*self.connect().await?, slot).await?.confirmed()
    }

    /// Waits until a slot has confirmed everything that was written before this call.
    ///
    /// # Errors
    ///
    /// Fails when it has not after `deadline`.
    pub async fn wait_confirmed(&self, slot: &str, deadline: Duration) -> anyhow::Result<()> {
        let end = self.current_wal_lsn().await?;
        let session = self.connect().await?;
        eventually(deadline, format!("confirmed_flush_lsn {end}"), async || {
            let confirmed = SlotRow::existing(&session, slot).await?.confirmed()?;
            Ok((confirmed >= end).then_some(()))
        })
        .await
    }

    /// Waits until no walsender holds a slot, and returns the position that it has confirmed: a
    /// walsender may still read what a dead router has sent.
    ///
    /// # Errors
    ///
    /// Fails when a walsender still holds it after `deadline`, or there is no such slot.
    pub async fn wait_slot_free(&self, slot: &str, deadline: Duration) -> anyhow::Result<PgLsn> {
        let session = self.connect().await?;
        eventually(deadline, format!("slot \"{slot}\" to be free"), async || {
            let row = SlotRow::existing(&session, slot).await?;
            if row.active { Ok(None) } else { row.confirmed().map(Some) }
        })
        .await
    }
}

impl SlotRow {
    fn confirmed(&self) -> anyhow::Result<PgLsn> {
        let confirmed = self.confirmed_flush_lsn;
        confirmed.with_context(|| format!("slot \"{}\" has no confirmed position", self.name))
    }

    async fn existing(client: &Client, name: &str) -> anyhow::Result<Self> {
        let row = Self::read(client, name).await?;
        row.with_context(|| format!("slot \"{name}\" is gone"))
    }

    async fn read(client: &Client, name: &str) -> anyhow::Result<Option<Self>> {
        let row = client
            .query_opt(
                "SELECT slot_name::text, plugin::text, active, active_pid, restart_lsn, \
                 confirmed_flush_lsn, wal_status, safe_wal_size \
                 FROM pg_replication_slots WHERE slot_name = $1::text::name",
                &[&name],
            )
            .await?;
        Ok(row.map(|row| Self {
            name: row.get(0),
            plugin: row.get(1),
            active: row.get(2),
            active_pid: row.get(3),
            restart_lsn: row.get(4),
            confirmed_flush_lsn: row.get(5),
            wal_status: row.get(6),
            safe_wal_size: row.get(7),
        }))
    }
}
