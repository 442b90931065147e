//! The table of held events: made by the router's own command, and read for the audit.

use std::path::Path;

use anyhow::ensure;
use testbed::postgres::{DATABASE, SUPERUSER};
use testbed::router::RouterProcess;

use crate::server::{BadRows, BenchServer};
use crate::shape::Distribution;

/// An event that is not in Kafka because the table has it.
#[derive(Debug)]
pub(crate) struct HeldRow {
    pub(crate) key: Option<Vec<u8>>,
    /// Its row, among other things, as the walsender sent it.
    pub(crate) messages: Vec<u8>,
}

/// Starts a server whose routers hold what they cannot deliver.
pub(crate) async fn server_with_table(
    version: u16,
    distribution: Distribution,
    binary: &Path,
) -> anyhow::Result<BenchServer> {
    let server = BenchServer::with_headers(version, distribution, BadRows::DeadLetter).await?;
    let router = RouterProcess::with_config(&server.setup_config())?.program(binary);
    let url = server.postgres.url(SUPERUSER, DATABASE);
    let setup = ["setup", "--apply", "--dead-letters", "--skip-kafka", "--admin-url", &url];
    let output = router.command(&setup).await?;
    let told = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    ensure!(output.status.success(), "the table cannot be made: {}", told.concat());
    Ok(server)
}

/// What the table has of a slot that was not delivered, in its order; nothing where there is no
/// table.
pub(crate) async fn held_rows(server: &BenchServer, slot: &str) -> anyhow::Result<Vec<HeldRow>> {
    if server.bad_rows == BadRows::Halt {
        return Ok(Vec::new());
    }
    let sql = "SELECT key, messages FROM outbox_router.held \
               WHERE slot = $1 AND state <> 'delivered' ORDER BY commit_lsn, event_index";
    let rows = server.session.query(sql, &[&slot]).await?;
    Ok(rows.iter().map(|row| HeldRow { key: row.get(0), messages: row.get(1) }).collect())
}

/// Removes what earlier runs have left, so that each begins with an empty table.
pub(super) async fn empty_table(server: &BenchServer) -> anyhow::Result<()> {
    let sql = "TRUNCATE outbox_router.held, outbox_router.held_version";
    Ok(server.session.batch_execute(sql).await?)
}
