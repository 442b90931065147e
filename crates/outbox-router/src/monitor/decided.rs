//! How many decisions about dead letters are not carried out yet. The router carries out what is
//! decided within seconds while it streams; while it does not, nothing else shows that a person's
//! decision waits. So this is read here, in every state of the router.

use tokio_postgres::{Client, Error};

use super::brief;
use crate::held::is_table_readable;

/// At most so many events are looked at as tell whether something waits. One is left to the router
/// if the first open event of its key is not undecided; looked up as the router itself does it.
const COUNT: &str = "\
    select count(*) from ( \
      select key_hash from outbox_router.held \
      where pipeline = $1 and slot = $2 and state in ('requeued', 'dropping') limit 1000) d \
    cross join lateral ( \
      select h.code is not null and h.state = 'held' as undecided from outbox_router.held h \
      where h.pipeline = $1 and h.slot = $2 \
        and h.key_hash between d.key_hash and d.key_hash \
        and h.state in ('held', 'requeued', 'dropping') \
      order by h.key_hash, h.commit_lsn, h.event_index limit 1) f \
    where not f.undecided";

/// Counts them; `None` where the table did not answer. Without a table there are none.
pub(super) async fn count(client: &Client, name: &str, slot: &str) -> Option<u64> {
    let counted = read(client, name, slot).await;
    if let Err(error) = &counted {
        tracing::debug!(%error, "the decisions about dead letters cannot be counted");
        // Where the connection broke, the next reading finds that.
        let _ended = client.batch_execute("rollback").await;
    }
    counted.ok()
}

async fn read(client: &Client, name: &str, slot: &str) -> Result<u64, Error> {
    if !is_table_readable(client).await? {
        return Ok(0);
    }
    brief::begin(client).await?;
    client.batch_execute("set local enable_sort = off").await?;
    let count: i64 = client.query_one(COUNT, &[&name, &slot]).await?.try_get(0)?;
    client.batch_execute("commit").await?;
    Ok(u64::try_from(count).unwrap_or_default())
}
