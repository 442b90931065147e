//! Takes a horizon: [`relay::delivered`] says why in two statements, and why in this order.

use relay::{
    Failure, Lsn,
    delivered::{FullXid, Horizon},
};

use super::session::{Session, number};

const XMIN: &str = "select pg_snapshot_xmin(pg_current_snapshot())";
const LSN: &str = "select pg_current_wal_insert_lsn()";

/// A statement that has the server write its WAL out. It costs a transaction id.
pub(crate) const FLUSH: &str = "select pg_current_xact_id()";

/// Takes a horizon.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn take(session: Session<'_>) -> Result<Horizon, Failure> {
    let xmin: u64 = number(&session.row(XMIN).await?, 0)?;
    let lsn: Lsn = number(&session.row(LSN).await?, 0)?;
    Ok(Horizon { xmin: FullXid::from_u64(xmin), lsn })
}

/// Has the server write its WAL out: a horizon may lie in WAL that was never flushed, and nothing
/// else may be written for long.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn flush(session: Session<'_>) -> Result<(), Failure> {
    session.execute(FLUSH).await
}
