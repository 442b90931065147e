//! The slot as `pg_replication_slots` shows it, in one query, on PostgreSQL 13 to 18. Reading only; what is wrong with it
//! is judged in [`relay::source`].

use relay::{
    Failure, Lsn,
    source::{Peculiarity, SlotHealth, SlotKind, SlotLook, WalStatus},
};
use tokio_postgres::{Client, Row, types::PgLsn};

use crate::postgres::sql_failure;

/// The first server versions with the columns that are not on all supported ones.
const TWO_PHASE_SINCE: i32 = 14_00_00;
const CONFLICTING_SINCE: i32 = 16_00_00;
const FAILOVER_SINCE: i32 = 17_00_00;

/// Looks at the slot.
///
/// # Errors
/// The server did not answer, or not with what its version should have.
pub async fn look(client: &Client, version: i32, slot: &str) -> Result<SlotLook, Failure> {
    let row = client.query_one(&query(version), &[&slot]).await.map_err(|e| sql_failure(&e))?;
    read(&row).map_err(|e| sql_failure(&e))
}

/// One text per family of versions. `left join`: the position and the clock are wanted when the slot is not there too.
fn query(version: i32) -> String {
    let since = |first: i32, column: &'static str, absent: &'static str| {
        if version >= first { column } else { absent }
    };
    let two_phase = since(TWO_PHASE_SINCE, "s.two_phase", "false");
    let failover = since(FAILOVER_SINCE, "s.failover", "null::bool");
    let synced = since(FAILOVER_SINCE, "s.synced", "null::bool");
    let inactive_since =
        since(FAILOVER_SINCE, "extract(epoch from s.inactive_since)::float8", "null::float8");
    let invalidation = if version >= FAILOVER_SINCE {
        "s.invalidation_reason"
    } else {
        since(CONFLICTING_SINCE, "case when s.conflicting then 'conflict' end", "null::text")
    };
    format!(
        "select w.lsn as current_wal_lsn, \
           to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') as at, \
           current_database()::text as here, \
           s.slot_name is not null as found, s.confirmed_flush_lsn, s.restart_lsn, \
           s.safe_wal_size::int8 as safe_wal_size, s.wal_status, s.active_pid, s.plugin::text, \
           s.database::text, s.slot_type, s.temporary, {two_phase} as two_phase, \
           {failover} as failover, {synced} as synced, {invalidation} as invalidation_reason, \
           {inactive_since} as inactive_since \
         from (select case when pg_is_in_recovery() \
             then coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) \
             else pg_current_wal_lsn() end as lsn) w \
         left join pg_replication_slots s on s.slot_name = $1"
    )
}

fn read(row: &Row) -> Result<SlotLook, tokio_postgres::Error> {
    let current_wal_lsn = lsn(row, "current_wal_lsn")?.unwrap_or(Lsn::from_u64(0));
    let found: bool = row.try_get("found")?;
    Ok(SlotLook {
        current_wal_lsn,
        at: row.try_get("at")?,
        database: row.try_get("here")?,
        slot: if found { Some(read_slot(row, current_wal_lsn)?) } else { None },
    })
}

fn read_slot(row: &Row, current_wal_lsn: Lsn) -> Result<SlotHealth, tokio_postgres::Error> {
    let peculiarity = match (row.try_get("temporary")?, row.try_get("two_phase")?) {
        (true, _) => Some(Peculiarity::Temporary),
        (false, true) => Some(Peculiarity::TwoPhase),
        (false, false) => None,
    };
    let kind = match row.try_get("slot_type")? {
        "logical" => SlotKind::Logical,
        _ => SlotKind::Physical,
    };
    let safe: Option<i64> = row.try_get("safe_wal_size")?;
    Ok(SlotHealth {
        current_wal_lsn,
        confirmed_flush_lsn: lsn(row, "confirmed_flush_lsn")?,
        restart_lsn: lsn(row, "restart_lsn")?,
        // Negative once the limit is passed: then nothing is safe.
        safe_wal_bytes: safe.map(|bytes| u64::try_from(bytes).unwrap_or(0)),
        wal_status: WalStatus::parse(row.try_get("wal_status")?),
        active_pid: row.try_get("active_pid")?,
        plugin: row.try_get("plugin")?,
        database: row.try_get("database")?,
        kind,
        peculiarity,
        failover: row.try_get("failover")?,
        synced: row.try_get("synced")?,
        invalidation_reason: row.try_get("invalidation_reason")?,
        inactive_since: row.try_get("inactive_since")?,
    })
}

fn lsn(row: &Row, column: &str) -> Result<Option<Lsn>, tokio_postgres::Error> {
    let lsn: Option<PgLsn> = row.try_get(column)?;
    Ok(lsn.map(|lsn| Lsn::from_u64(u64::from(lsn))))
}
