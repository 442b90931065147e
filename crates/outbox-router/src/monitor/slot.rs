//! Reads the slot as `pg_replication_slots` shows it, in one statement, on PostgreSQL 13 to 18.
//! Nothing is checked here: that is done in [`relay::source`].

use relay::{
    Failure, Lsn,
    delivered::FullXid,
    source::{SlotFeature, SlotHealth, SlotKind, SlotReading, WalStatus},
};

use crate::postgres::{TextQuery, TextRow, one_row, quote_literal};

/// The first versions with columns that some supported versions lack.
const TWO_PHASE_SINCE: i32 = 14_00_00;
const CONFLICTING_SINCE: i32 = 16_00_00;
const FAILOVER_SINCE: i32 = 17_00_00;

/// Reads the slot, with the server's current position and clock.
///
/// # Errors
/// The server refused the statement, the connection broke, or the answer does not have the expected
/// columns.
pub async fn read(
    sql: &mut impl TextQuery,
    version: i32,
    slot: &str,
) -> Result<SlotReading, Failure> {
    reading(one_row(sql, "the slot", &statement(version, slot)).await?)
}

/// The statement for this version. `left join`, because position and clock are needed also when
/// there is no such slot.
fn statement(version: i32, slot: &str) -> String {
    let since = |first: i32, column: &'static str, absent: &'static str| {
        if version >= first { column } else { absent }
    };
    let two_phase = since(TWO_PHASE_SINCE, "s.two_phase", "false");
    let failover = since(FAILOVER_SINCE, "s.failover", "null");
    let synced = since(FAILOVER_SINCE, "s.synced", "null");
    let inactive_since = since(FAILOVER_SINCE, "extract(epoch from s.inactive_since)", "null");
    let invalidation = if version >= FAILOVER_SINCE {
        "s.invalidation_reason"
    } else {
        since(CONFLICTING_SINCE, "case when s.conflicting then 'conflict' end", "null")
    };
    let slot = quote_literal(slot);
    format!(
        "select w.lsn, \
           to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), \
           (extract(epoch from clock_timestamp()) * 1000000)::bigint, \
           case when not pg_is_in_recovery() then x.next end, \
           current_database(), s.slot_name is not null, s.confirmed_flush_lsn, s.restart_lsn, \
           x.next - ((x.next - s.catalog_xmin::text::int8) & 4294967295), \
           s.safe_wal_size, s.wal_status, s.active_pid, s.plugin, s.database, s.slot_type, \
           s.temporary, {two_phase}, {failover}, {synced}, {invalidation}, {inactive_since} \
         from (select case when pg_is_in_recovery() \
             then coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) \
             else pg_current_wal_lsn() end as lsn) w \
         cross join (select pg_snapshot_xmax(pg_current_snapshot())::text::int8 as next) x \
         left join pg_replication_slots s on s.slot_name = {slot}"
    )
}

fn reading(mut row: TextRow) -> Result<SlotReading, Failure> {
    let current_wal_lsn = row.lsn()?.unwrap_or(Lsn::from_u64(0));
    let (at, clock_micros) = (row.text()?, row.parsed()?);
    let next: Option<i64> = row.parsed_nullable()?;
    let next_xid = next.and_then(|next| u64::try_from(next).ok()).map(FullXid::from_u64);
    let database = row.text()?;
    let slot = if row.boolean()? { Some(read_slot(row, current_wal_lsn)?) } else { None };
    Ok(SlotReading { current_wal_lsn, at, clock_micros, next_xid, database, slot })
}

fn read_slot(mut row: TextRow, current_wal_lsn: Lsn) -> Result<SlotHealth, Failure> {
    let (confirmed_flush_lsn, restart_lsn) = (row.lsn()?, row.lsn()?);
    // The id with these lower 32 bits that is no later than the next one.
    let xmin: Option<i64> = row.parsed_nullable()?;
    let catalog_xmin = xmin.and_then(|xmin| u64::try_from(xmin).ok()).map(FullXid::from_u64);
    // PostgreSQL shows a negative size once the limit is passed: then no byte is safe.
    let safe: Option<i64> = row.parsed_nullable()?;
    let safe_wal_bytes = safe.map(|bytes| u64::try_from(bytes).unwrap_or(0));
    let wal_status = WalStatus::parse(row.nullable()?.as_deref());
    let active_pid = row.parsed_nullable()?;
    let (plugin, database) = (row.nullable()?, row.nullable()?);
    let kind = match row.text()?.as_str() {
        "logical" => SlotKind::Logical,
        _ => SlotKind::Physical,
    };
    let unsupported_feature = match (row.boolean()?, row.boolean()?) {
        (true, _) => Some(SlotFeature::Temporary),
        (false, true) => Some(SlotFeature::TwoPhase),
        (false, false) => None,
    };
    Ok(SlotHealth {
        current_wal_lsn,
        confirmed_flush_lsn,
        restart_lsn,
        catalog_xmin,
        safe_wal_bytes,
        wal_status,
        active_pid,
        plugin,
        database,
        kind,
        unsupported_feature,
        failover: row.boolean_nullable()?,
        synced: row.boolean_nullable()?,
        invalidation_reason: row.nullable()?,
        inactive_since: row.parsed_nullable()?,
    })
}
