//! What keeps WAL from being removed when it is not the router: the oldest transaction that has
//! written something. Decoding must be able to start before that transaction, so `restart_lsn`
//! waits for its end however fast rows are confirmed.

use relay::{Failure, source::SlotHealth};
use serde::Deserialize;
use tokio_postgres::Client;

use crate::postgres::one_row;

/// Bytes that the slot retains beyond what it is behind, before somebody is named as their cause;
/// some segments are always retained.
const RETAINED_MIN: u64 = 64 << 20;

/// What holds `restart_lsn` back.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "PinRow")]
pub struct WalPin {
    /// The transaction's owner.
    pub holder: PinHolder,
    /// For how long it has been open, in seconds; `None` where the role may not see other users'
    /// sessions.
    pub seconds: Option<f64>,
    /// How many transactions have begun since: `age` of its transaction id. Where it equals the age
    /// of the slot's `catalog_xmin`, this transaction is what holds the slot back.
    pub xid_age: u64,
    /// Its user.
    pub user: Option<String>,
    /// Its database; transactions of every database hold the slot back.
    pub database: Option<String>,
    /// The session's `state`, such as `idle in transaction`; `None` for a prepared transaction, or
    /// where the role may not see it.
    pub state: Option<String>,
    /// How long ago the session's last statement began, in seconds; `None` as for
    /// [`Self::state`].
    pub query_seconds: Option<f64>,
}

/// More than so many transactions are not reported: the next ones count only after the first have
/// ended.
pub const PINS_MAX: u32 = 5;

/// A transaction that is still open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinHolder {
    /// A session.
    Backend {
        /// Process id: what `pg_terminate_backend` takes.
        pid: i32,
        /// The session's `application_name`; `None` where it is empty.
        application: Option<String>,
    },
    /// A prepared transaction that was neither committed nor rolled back.
    Prepared {
        /// The transaction's name: what `rollback prepared` takes.
        gid: String,
    },
}

/// Open transactions of sessions, as a query. Only those with a transaction id hold a slot back: a
/// transaction that only reads writes nothing that would have to be decoded. `age` is negative
/// where the transaction began after this statement did.
pub(super) const OF_SESSIONS: &str = "\
    select pid, nullif(application_name, '') as application, null::text as gid, \
      greatest(age(backend_xid), 0) as xid_age, usename::text as user_name, datname::text as database, state, \
      extract(epoch from clock_timestamp() - xact_start)::float8 as seconds, \
      extract(epoch from clock_timestamp() - query_start)::float8 as query_seconds \
    from pg_catalog.pg_stat_activity where backend_xid is not null";

/// Prepared transactions, with the same columns.
pub(super) const PREPARED: &str = "\
    select null::int, null, gid, greatest(age(transaction), 0), owner::text, database::text, null, \
      extract(epoch from clock_timestamp() - prepared)::float8, null \
    from pg_catalog.pg_prepared_xacts";

/// Reads the oldest open transaction that has written something, for a command that looks once;
/// `None` when there is none.
///
/// # Errors
/// The role may not read one of the views, or the connection breaks.
pub async fn oldest(mut client: &Client) -> Result<Option<WalPin>, Failure> {
    let statement = format!(
        "select coalesce(json_agg(row_to_json(x)), '[]') \
         from ({OF_SESSIONS} union all {PREPARED} order by xid_age desc limit 1) x"
    );
    let found: Vec<WalPin> = one_row(&mut client, "open transactions", &statement).await?.json()?;
    Ok(found.into_iter().next())
}

/// Whether the slot retains so much more than it is behind that something else than the router must
/// be the cause.
pub fn is_worth_showing(slot: &SlotHealth) -> bool {
    slot.retained_bytes()
        .is_some_and(|retained| retained.saturating_sub(slot.bytes_behind()) > RETAINED_MIN)
}

/// A row of [`OF_SESSIONS`] or [`PREPARED`].
#[derive(Deserialize)]
struct PinRow {
    pid: Option<i32>,
    application: Option<String>,
    gid: Option<String>,
    xid_age: u64,
    user_name: Option<String>,
    database: Option<String>,
    state: Option<String>,
    seconds: Option<f64>,
    query_seconds: Option<f64>,
}

impl TryFrom<PinRow> for WalPin {
    type Error = &'static str;

    fn try_from(row: PinRow) -> Result<Self, Self::Error> {
        let holder = match (row.gid, row.pid) {
            (Some(gid), _) => PinHolder::Prepared { gid },
            (None, Some(pid)) => PinHolder::Backend { pid, application: row.application },
            (None, None) => return Err("a transaction of nobody"),
        };
        Ok(Self {
            holder,
            seconds: row.seconds,
            xid_age: row.xid_age,
            user: row.user_name,
            database: row.database,
            state: row.state,
            query_seconds: row.query_seconds,
        })
    }
}
