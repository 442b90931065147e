//! Who keeps WAL from being removed when it is not the router: the oldest transaction that has
//! written something. Decoding must be able to start before it, so `restart_lsn` waits for it
//! however fast rows are confirmed.

use relay::{Failure, source::SlotHealth};
use tokio_postgres::{Client, Row};

use crate::postgres::sql_failure;

/// Retained beyond what is behind before it is worth asking who is to blame; some segments are
/// always kept.
const WORTH_ASKING: u64 = 64 << 20;

/// What holds `restart_lsn` back.
#[derive(Debug, Clone, PartialEq)]
pub struct WalPin {
    /// Who.
    pub holder: PinHolder,
    /// For how long, in seconds; unknown where the role may not see other users' sessions.
    pub seconds: Option<f64>,
}

/// A transaction that is still open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinHolder {
    /// A session.
    Backend {
        /// Process id: what `pg_terminate_backend` takes.
        pid: i32,
        /// What the application calls itself, where we may see it.
        application: Option<String>,
    },
    /// A prepared transaction that nobody ended.
    Prepared {
        /// Its name: what `rollback prepared` takes.
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

/// Whether the slot retains so much more than it is behind that somebody else must be the cause.
pub fn is_worth_asking(slot: &SlotHealth) -> bool {
    slot.retained_bytes()
        .is_some_and(|retained| retained.saturating_sub(slot.bytes_behind()) > WORTH_ASKING)
}

/// Looks for the oldest writing transaction.
///
/// # Errors
/// The server did not answer.
pub async fn oldest(client: &Client) -> Result<Option<WalPin>, Failure> {
    let row = client.query_opt(QUERY, &[]).await.map_err(|e| sql_failure(&e))?;
    row.as_ref().map(read).transpose().map_err(|e| sql_failure(&e))
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
