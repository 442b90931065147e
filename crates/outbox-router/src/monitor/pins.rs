//! What keeps WAL from being removed when it is not the router: the oldest transaction that has
//! written something. Decoding must be able to start before that transaction, so `restart_lsn`
//! waits for its end however fast rows are confirmed.

use relay::{Failure, source::SlotHealth};
use tokio_postgres::{Client, Row};

use crate::postgres::sql_failure;

/// Bytes that the slot retains beyond what it is behind, before their cause is looked up; some
/// segments are always retained.
const RETAINED_MIN: u64 = 64 << 20;

/// What holds `restart_lsn` back.
#[derive(Debug, Clone, PartialEq)]
pub struct WalPin {
    /// The transaction's owner.
    pub holder: PinHolder,
    /// For how long, in seconds; `None` where the role may not see other users' sessions.
    pub seconds: Option<f64>,
}

/// A transaction that is still open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinHolder {
    /// A session.
    Backend {
        /// Process id: what `pg_terminate_backend` takes.
        pid: i32,
        /// The session's `application_name`; `None` where it is empty or the role may not see it.
        application: Option<String>,
    },
    /// A prepared transaction that was neither committed nor rolled back.
    Prepared {
        /// The transaction's name: what `rollback prepared` takes.
        gid: String,
    },
}

const QUERY: &str = "\
    select pid, application, gid, seconds from ( \
      select pid, nullif(application_name, '') as application, null::text as gid, \
        extract(epoch from clock_timestamp() - xact_start)::float8 as seconds, age(backend_xid) as age \
      from pg_stat_activity where backend_xid is not null \
      union all \
      select null, null, gid, extract(epoch from clock_timestamp() - prepared)::float8, age(transaction) \
      from pg_prepared_xacts \
    ) x order by age desc limit 1";

/// Whether the slot retains so much more than it is behind that something else than the router must
/// be the cause.
pub fn is_worth_asking(slot: &SlotHealth) -> bool {
    slot.retained_bytes()
        .is_some_and(|retained| retained.saturating_sub(slot.bytes_behind()) > RETAINED_MIN)
}

/// Reads the oldest transaction that has written something; `None` when there is none.
///
/// # Errors
/// The server refused the statement, or the connection broke.
pub async fn oldest(client: &Client) -> Result<Option<WalPin>, Failure> {
    let row = client.query_opt(QUERY, &[]).await.map_err(sql_failure)?;
    row.as_ref().map(read).transpose().map_err(sql_failure)
}

fn read(row: &Row) -> Result<WalPin, tokio_postgres::Error> {
    let holder = match row.try_get("gid")? {
        Some(gid) => PinHolder::Prepared { gid },
        None => PinHolder::Backend {
            pid: row.try_get("pid")?,
            application: row.try_get("application")?,
        },
    };
    Ok(WalPin { holder, seconds: row.try_get("seconds")? })
}
