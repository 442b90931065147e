//! One row of `pg_replication_slots`.

use anyhow::Context;
use tokio_postgres::Client;
use tokio_postgres::types::PgLsn;

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

impl SlotRow {
    pub(super) async fn read(client: &Client, name: &str) -> anyhow::Result<Option<Self>> {
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
