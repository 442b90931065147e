//! Waits until WAL is flushed: no slot decodes what is not, and a commit need not wait for that.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, Error};

use crate::retention::horizon::FLUSH;

/// Between two looks. The WAL writer wakes up five times a second (`wal_writer_delay`), unless it
/// is told otherwise.
const PAUSE: Duration = Duration::from_millis(50);

const IS_FLUSHED: &str = "select pg_current_wal_flush_lsn() >= $1::text::pg_lsn";

/// Waits until WAL is flushed up to a position. Returns whether it is, at the latest after `limit`.
///
/// # Errors
/// The connection breaks.
pub(super) async fn wait_flushed(
    client: &Client,
    position: &str,
    limit: Duration,
) -> Result<bool, Error> {
    let is_flushed =
        async || client.query_one(IS_FLUSHED, &[&position]).await?.try_get::<_, bool>(0);
    if is_flushed().await? {
        return Ok(true);
    }
    let until = Instant::now() + limit;
    client.batch_execute(FLUSH).await?;
    while !is_flushed().await? {
        if Instant::now() >= until {
            return Ok(false);
        }
        sleep(PAUSE).await;
    }
    Ok(true)
}
