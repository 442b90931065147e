//! What the server is asked by SQL while a copy of the slot is read.

use relay::Lsn;
use tokio_postgres::Client;

use crate::cli::TaskError;

/// The server's WAL position: on a standby, that of what it has replayed.
///
/// # Errors
/// The query fails.
pub(super) async fn wal_end(client: &Client) -> Result<Lsn, TaskError> {
    let position = "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() \
        else pg_current_wal_flush_lsn() end::text";
    let text: String = client.query_one(position, &[]).await?.try_get(0)?;
    Ok(text.parse().unwrap_or(Lsn::ZERO))
}
