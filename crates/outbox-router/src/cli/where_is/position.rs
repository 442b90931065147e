//! Whether the slot has confirmed a row's transaction. A row does not say where in WAL it was
//! committed, so two proofs are used, of which either is enough.
//!
//! The first: a position that was read after the row had been seen is past its commit; the slot has
//! confirmed that position. The second: the row's transaction is older than the slot's
//! `catalog_xmin`. PostgreSQL moves `catalog_xmin` to the oldest transaction that was running at a
//! position only when that position is confirmed, so everything older had ended before it.
//!
//! Without a proof the row may still be confirmed: `catalog_xmin` is moved about every 15 seconds.

use relay::Lsn;
use tokio_postgres::Client;

use crate::cli::TaskError;

/// The end of WAL; on a standby, of what it has replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Horizon(Lsn);

/// How far the slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotPosition {
    /// `confirmed_flush_lsn`.
    pub(super) confirmed: Lsn,
    catalog_xmin: Option<u32>,
}

/// Transaction ids below this one are frozen, and older than all others
/// (`FirstNormalTransactionId`).
const FIRST_NORMAL: u32 = 3;

/// Reads the position that the commits of all rows precede that were seen before.
pub(super) async fn horizon(client: &Client) -> Result<Horizon, TaskError> {
    let query = "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() \
        else pg_current_wal_insert_lsn() end::text";
    let lsn: String = client.query_one(query, &[]).await?.try_get(0)?;
    Ok(Horizon(lsn.parse().unwrap_or(Lsn::from_u64(u64::MAX))))
}

/// Reads the slot; `None` where there is none.
pub(super) async fn read(client: &Client, slot: &str) -> Result<Option<SlotPosition>, TaskError> {
    let query = "select confirmed_flush_lsn::text, catalog_xmin::text \
        from pg_replication_slots where slot_name = $1 and confirmed_flush_lsn is not null";
    let Some(row) = client.query_opt(query, &[&slot]).await? else { return Ok(None) };
    let (confirmed, xmin): (String, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    let catalog_xmin = xmin.and_then(|xmin| xmin.parse().ok());
    Ok(confirmed.parse().ok().map(|confirmed| SlotPosition { confirmed, catalog_xmin }))
}

impl SlotPosition {
    /// Whether it is proved that the slot has confirmed the row.
    pub(super) fn has_confirmed(&self, xmin: u32, horizon: Horizon) -> bool {
        self.confirmed >= horizon.0
            || self.catalog_xmin.is_some_and(|oldest| precedes(xmin, oldest))
    }
}

/// Whether a transaction began before another. Ids are used again after 2³² transactions, and no
/// two that matter are more than half of that apart.
const fn precedes(xid: u32, other: u32) -> bool {
    xid < FIRST_NORMAL || matches!(other.wrapping_sub(xid), 1..=0x7fff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_compared_across_the_end_of_their_ids() {
        assert!(precedes(7, 8) && !precedes(8, 8) && !precedes(9, 8));
        assert!(precedes(u32::MAX, 5) && !precedes(5, u32::MAX));
        assert!(precedes(2, 5) && precedes(1, u32::MAX), "a frozen row precedes everything");
    }

    #[test]
    fn a_row_is_confirmed_by_either_proof_and_by_nothing_else() {
        let lsn = Lsn::from_u64;
        let slot = SlotPosition { confirmed: lsn(100), catalog_xmin: Some(50) };
        assert!(slot.has_confirmed(60, Horizon(lsn(100))), "everything up to there is confirmed");
        assert!(slot.has_confirmed(49, Horizon(lsn(101))), "the transaction is older");
        assert!(!slot.has_confirmed(50, Horizon(lsn(101))));
        let without = SlotPosition { catalog_xmin: None, ..slot };
        assert!(!without.has_confirmed(49, Horizon(lsn(101))));
    }
}
