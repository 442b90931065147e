//! The lock that one command of a pipeline at a time holds.

use std::{fmt, time::Duration};

use relay::Failure;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

use crate::postgres::{TextQuery, one_row, quote_literal, sql_failure};

/// The key of the lock of a pipeline, which is SQL.
fn lock_key(pipeline: &str) -> String {
    format!("hashtextextended('outbox_router republication ' || {pipeline}, 0)")
}

/// Who holds the lock of this key.
fn holders(key: &str) -> String {
    format!(
        "select a.pid, coalesce(a.usename, ''), coalesce(a.application_name, '') \
         from pg_locks l join pg_stat_activity a on a.pid = l.pid \
         where l.locktype = 'advisory' and l.granted and l.objsubid = 1 \
         and l.database = (select oid from pg_database where datname = current_database()) \
         and ((l.classid::bigint << 32) | l.objid::bigint) = {key}"
    )
}

/// Who holds the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: i32,
    pub(crate) role: String,
    pub(crate) application: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, role, application } = self;
        write!(
            f,
            "a command of this pipeline is at work in process {pid} ({application}, role {role}): \
             wait for it, or end it"
        )
    }
}

/// How long a session may take to end whose process has just ended.
const ENDS_WITHIN: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Takes the lock for as long as the connection lasts.
///
/// # Errors
/// The server refuses it, or the connection breaks.
pub(crate) async fn lock(client: &Client, pipeline: &str) -> Result<Result<(), Holder>, Failure> {
    let key = lock_key("$1");
    let query = format!("select pg_try_advisory_lock({key})");
    let until = Instant::now() + ENDS_WITHIN;
    loop {
        let row = client.query_one(&query, &[&pipeline]).await.map_err(sql_failure)?;
        if row.try_get(0).map_err(sql_failure)? {
            return Ok(Ok(()));
        }
        if Instant::now() >= until {
            break;
        }
        sleep(POLL_INTERVAL).await;
    }
    let rows = client.query(&holders(&key), &[&pipeline]).await.map_err(sql_failure)?;
    let unknown = Holder { pid: 0, role: String::new(), application: String::new() };
    let Some(row) = rows.first() else { return Ok(Err(unknown)) };
    let read =
        || Ok(Holder { pid: row.try_get(0)?, role: row.try_get(1)?, application: row.try_get(2)? });
    Ok(Err(read().map_err(sql_failure)?))
}

/// Whether a command of the pipeline is at work.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn is_at_work(sql: &mut impl TextQuery, pipeline: &str) -> Result<bool, Failure> {
    let statement = format!("select exists ({})", holders(&lock_key(&quote_literal(pipeline))));
    one_row(sql, "pg_locks", &statement).await?.boolean()
}
