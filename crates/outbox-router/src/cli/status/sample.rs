//! What PostgreSQL reports about the slot, in one query that every version understands, and how
//! fast WAL grows.

use std::time::Duration;

use relay::source::WalStatus;
use tokio_postgres::{Client, Row};

use crate::{cli::TaskError, monitor::watch::limit::SlotLimit, status::reserve::Reserve};

/// One reading of the server.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// The end of WAL; on a standby, the end of what it has replayed.
    pub(super) current_wal_lsn: String,
    /// The slot; `None` where it does not exist.
    pub(super) slot: Option<SlotSample>,
}

/// The slot's row of `pg_replication_slots`.
#[derive(Debug, Clone)]
pub(super) struct SlotSample {
    pub(super) confirmed_flush_lsn: Option<String>,
    /// Current WAL position − `confirmed_flush_lsn`.
    pub(super) bytes_behind: u64,
    /// Current WAL position − `restart_lsn`: the WAL that is kept on disk.
    pub(super) retained_bytes: Option<u64>,
    /// `safe_wal_size`: bytes of WAL that may be written until the slot is in danger; `None`: no
    /// limit is set, or the slot is lost.
    pub(super) safe_wal_bytes: Option<u64>,
    pub(super) wal_status: Option<String>,
    /// Why the slot was invalidated, from PostgreSQL 17 on; on 16 `conflicting`, if the slot
    /// conflicted with recovery.
    pub(super) invalidation_reason: Option<String>,
    pub(super) holder: Option<Holder>,
    /// Bytes of WAL written in a second; measured only where a limit is set.
    pub(super) wal_rate: Option<u64>,
    /// `max_slot_wal_keep_size`; `None`: not set.
    pub(super) wal_keep_bytes: Option<u64>,
    /// `idle_replication_slot_timeout`, in seconds, from PostgreSQL 18 on; `None`: off.
    pub(super) idle_timeout: Option<f64>,
    /// For how many seconds nobody has streamed, from PostgreSQL 17 on.
    pub(super) idle_for: Option<f64>,
}

impl SlotSample {
    /// What limits the slot, in the terms of the router's own verdict.
    pub(super) fn reserve(&self) -> Reserve {
        // While somebody confirms, a second of WAL says nothing about what is retained later.
        let (wal, idle) = match self.holder {
            Some(_) => (None, None),
            None => (self.seconds_of_wal(), self.idle_seconds_left()),
        };
        let wal = wal.map(|seconds| (seconds, SlotLimit::WalKeepSize));
        let idle = idle.map(|seconds| (seconds, SlotLimit::IdleTimeout));
        let first = [wal, idle].into_iter().flatten().min_by_key(|(seconds, _)| *seconds);
        let is_lost = is_lost(self);
        Reserve {
            wal_status: match is_lost {
                true => WalStatus::Lost,
                false => WalStatus::parse(self.wal_status.as_deref()),
            },
            invalidated_by: self.invalidation_reason.clone(),
            retained: self.retained_bytes.unwrap_or(0).max(self.bytes_behind),
            safe: self.safe_wal_bytes,
            keep: self.wal_keep_bytes,
            idle_timeout: self
                .idle_timeout
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            time: first.map(|(seconds, _)| Duration::from_secs(seconds)),
            by: first.map(|(_, limit)| limit),
        }
    }

    /// In how many seconds the safe WAL is written; `None` where none is being written.
    pub(super) fn seconds_of_wal(&self) -> Option<u64> {
        self.safe_wal_bytes?.checked_div(self.wal_rate?)
    }

    /// In how many seconds the slot has been idle for too long; `None` while somebody streams.
    pub(super) fn idle_seconds_left(&self) -> Option<u64> {
        if self.holder.is_some() {
            return None;
        }
        let left = (self.idle_timeout? - self.idle_for?).max(0.0);
        Duration::try_from_secs_f64(left).ok().map(|left| left.as_secs())
    }
}

/// Whether the slot is lost or invalidated.
pub(super) fn is_lost(slot: &SlotSample) -> bool {
    slot.wal_status.as_deref() == Some("lost") || slot.invalidation_reason.is_some()
}

/// The walsender that streams from the slot.
#[derive(Debug, Clone)]
pub(super) struct Holder {
    pub(super) pid: i32,
    pub(super) application: Option<String>,
    /// Bytes of WAL not yet sent to the client; `None` where the role may not see that.
    pub(super) unsent_bytes: Option<u64>,
}

/// Columns that older versions lack are read through JSON, where a missing one is null.
const QUERY: &str = "\
    with wal as (select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() \
      else pg_current_wal_lsn() end as lsn) \
    select wal.lsn::text, s.slot_name is not null, s.confirmed_flush_lsn::text, \
      pg_wal_lsn_diff(wal.lsn, s.confirmed_flush_lsn)::int8, \
      pg_wal_lsn_diff(wal.lsn, s.restart_lsn)::int8, s.safe_wal_size::int8, s.wal_status, \
      coalesce(to_jsonb(s) ->> 'invalidation_reason', \
        case when to_jsonb(s) ->> 'conflicting' = 'true' then 'conflicting' end), \
      s.active_pid, nullif(coalesce(r.application_name, a.application_name), ''), \
      pg_wal_lsn_diff(wal.lsn, r.sent_lsn)::int8, \
      nullif(pg_size_bytes(current_setting('max_slot_wal_keep_size')), -1)::int8, \
      nullif(extract(epoch from \
        current_setting('idle_replication_slot_timeout', true)::interval)::float8, 0), \
      extract(epoch from \
        clock_timestamp() - (to_jsonb(s) ->> 'inactive_since')::timestamptz)::float8 \
    from wal left join pg_replication_slots s on s.slot_name = $1 \
      left join pg_stat_activity a on a.pid = s.active_pid \
      left join pg_stat_replication r on r.pid = s.active_pid";

/// Time between the two readings that the rate is computed from.
const RATE_OVER: Duration = Duration::from_secs(1);

/// Reads the slot. Where PostgreSQL limits the WAL that it keeps for slots, also measures for a
/// second how fast WAL grows.
pub(super) async fn take(client: &Client, slot: &str) -> Result<Sample, TaskError> {
    let mut sample = read(&client.query_one(QUERY, &[&slot]).await?)?;
    if let Some(slot) = &mut sample.slot
        && slot.safe_wal_bytes.is_some()
    {
        tokio::time::sleep(RATE_OVER).await;
        let grown = "select pg_wal_lsn_diff(case when pg_is_in_recovery() \
            then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, $1::text::pg_lsn)::int8";
        let grown: i64 = client.query_one(grown, &[&sample.current_wal_lsn]).await?.try_get(0)?;
        slot.wal_rate = u64::try_from(grown).ok();
    }
    Ok(sample)
}

fn read(row: &Row) -> Result<Sample, TaskError> {
    let bytes = |column: usize| -> Result<Option<u64>, TaskError> {
        let value: Option<i64> = row.try_get(column)?;
        // A standby may not have replayed what the slot has confirmed: then the difference is
        // negative, and nothing is behind.
        Ok(value.map(|value| u64::try_from(value).unwrap_or_default()))
    };
    let holder = match row.try_get::<_, Option<i32>>(8)? {
        Some(pid) => Some(Holder { pid, application: row.try_get(9)?, unsent_bytes: bytes(10)? }),
        None => None,
    };
    let slot = if row.try_get(1)? {
        Some(SlotSample {
            confirmed_flush_lsn: row.try_get(2)?,
            bytes_behind: bytes(3)?.unwrap_or_default(),
            retained_bytes: bytes(4)?,
            safe_wal_bytes: bytes(5)?,
            wal_status: row.try_get(6)?,
            invalidation_reason: row.try_get(7)?,
            holder,
            wal_rate: None,
            wal_keep_bytes: bytes(11)?,
            idle_timeout: row.try_get(12)?,
            idle_for: row.try_get(13)?,
        })
    } else {
        None
    };
    let current: Option<String> = row.try_get(0)?;
    Ok(Sample { current_wal_lsn: current.unwrap_or_else(|| "0/0".to_owned()), slot })
}
