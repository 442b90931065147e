//! What PostgreSQL still grants the slot: how much WAL and time until it takes the slot away, and
//! what to type before that, or so that it does not happen again. The router and `outbox-router
//! status` without one judge by the same function, each of its own reading.
//!
//! A limit is only ever raised to a size that is computed from what is retained, with the space on
//! the disk that this takes: a slot without a limit fills the disk, and then the database stops.

use std::time::Duration;

use relay::source::WalStatus;

use super::to_do::ToDo;
use crate::{
    codes::{Advice, Hint},
    monitor::{MonitorReport, watch::limit::SlotLimit},
    wording,
};

/// So near a limit, somebody is needed now; the alert OutboxSlotWalAlmostGone has the same number.
const NEAR: Duration = Duration::from_secs(3_600);

/// As a part of what the slot may retain: with less than a tenth of it left, one batch may take it.
const NEAR_PART: u64 = 10;

const MIB: u64 = 1 << 20;

/// What limits the slot, as it was read at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Reserve {
    /// `wal_status`; [`WalStatus::Lost`] also for a slot that was invalidated for another reason.
    pub wal_status: WalStatus,
    /// Why it was invalidated, where PostgreSQL says it.
    pub invalidated_by: Option<String>,
    /// What it retains, or what it was behind when it was lost.
    pub retained: u64,
    /// `safe_wal_size`.
    pub safe: Option<u64>,
    /// `max_slot_wal_keep_size`; `None`: not set, or not known.
    pub keep: Option<u64>,
    /// `idle_replication_slot_timeout`; `None`: off, or not known.
    pub idle_timeout: Option<Duration>,
    /// How long until the first limit is reached; `None`: not known, or never at this pace.
    pub time: Option<Duration>,
    /// That limit.
    pub by: Option<SlotLimit>,
}

impl Reserve {
    /// From what the monitor read last; `None` where it has read no slot.
    pub fn of(monitor: &MonitorReport) -> Option<Self> {
        let last = monitor.watch.last.as_ref()?;
        let slot = last.slot.as_ref()?;
        let limits = monitor.watch.figures.as_ref().map(|figures| &figures.limits);
        let seconds = last.to_limit.map(|first| first.seconds);
        Some(Self {
            wal_status: if slot.is_lost() { WalStatus::Lost } else { slot.wal_status },
            invalidated_by: slot.invalidation_reason.clone(),
            retained: slot.retained_bytes().unwrap_or(0).max(slot.bytes_behind()),
            safe: slot.safe_wal_bytes,
            keep: limits.and_then(|limits| limits.wal_keep_bytes),
            idle_timeout: limits
                .and_then(|limits| limits.idle_timeout_seconds)
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            time: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            by: last.to_limit.map(|first| first.limit),
        })
    }

    /// Whether PostgreSQL has taken the slot away.
    pub fn is_lost(&self) -> bool {
        self.wal_status == WalStatus::Lost
    }

    /// Whether the limit is passed, and the next checkpoint takes the slot.
    pub fn is_passed(&self) -> bool {
        !self.is_lost() && (self.wal_status == WalStatus::Unreserved || self.safe == Some(0))
    }

    /// What a person has to do about it; `None` while the slot is in no danger.
    pub fn to_do(&self) -> Option<ToDo> {
        if self.is_lost() {
            return self.after_loss();
        }
        if self.is_passed() {
            let code = Some(Advice::SlotUnreserved.as_str());
            let message = "PostgreSQL invalidates the slot at its next checkpoint, unless the \
                           slot catches up before"
                .to_owned();
            return Some(ToDo { code, message, hint: Some(self.more_room()) });
        }
        let (time, by) = (self.time.filter(|time| *time <= NEAR), self.by);
        if let (Some(time), Some(by)) = (time, by) {
            let message = format!(
                "PostgreSQL invalidates the slot in {} ({})",
                wording::roughly(time),
                by.as_str()
            );
            let hint = match by {
                SlotLimit::WalKeepSize => self.more_room(),
                SlotLimit::IdleTimeout => Hint::marked(IDLE),
            };
            return Some(ToDo { code: None, message, hint: Some(hint) });
        }
        let safe = self.safe?;
        let is_near = safe < self.retained.saturating_add(safe) / NEAR_PART;
        is_near.then(|| {
            let message = format!(
                "PostgreSQL may invalidate the slot after {} more of WAL (max_slot_wal_keep_size)",
                wording::bytes(safe)
            );
            ToDo { code: None, message, hint: Some(self.more_room()) }
        })
    }

    /// So that it does not happen again; what brings the rows back is with the failure (P011).
    fn after_loss(&self) -> Option<ToDo> {
        if self.invalidated_by.as_deref() == Some("idle_timeout") {
            let time = self.idle_timeout.map(|time| format!(" ({})", wording::roughly(time)));
            let message = format!(
                "nobody read the slot for longer than idle_replication_slot_timeout{}",
                time.unwrap_or_default()
            );
            return Some(ToDo { code: None, message, hint: Some(Hint::marked(IDLE)) });
        }
        let is_for_wal = matches!(self.invalidated_by.as_deref(), None | Some("wal_removed"));
        let keep = self.keep.filter(|_| is_for_wal)?;
        let message = format!(
            "so that the slot is not lost again: max_slot_wal_keep_size is {}, and the slot was {} \
             behind",
            wording::bytes(keep),
            wording::bytes(self.retained)
        );
        Some(ToDo { code: None, message, hint: Some(self.more_room()) })
    }

    /// A limit that lasts as long again as the one that was reached, and what that takes.
    fn more_room(&self) -> Hint {
        let size = self.larger_limit();
        // What a lost slot retained is removed already.
        let on_disk = if self.is_lost() { 0 } else { self.retained };
        Hint::marked(&format!(
            "if the disk of pg_wal has {} free: `alter system set max_slot_wal_keep_size = \
             '{}MB'`, then `select pg_reload_conf()`; without that space, only a slot that catches up helps; \
             -1 (no limit) would let WAL fill the disk and stop the database",
            wording::bytes(size.saturating_sub(on_disk)),
            size / MIB
        ))
    }

    /// Twice what is retained, and twice the limit there is, in whole MiB.
    fn larger_limit(&self) -> u64 {
        let reached = self.retained.max(self.keep.unwrap_or(0));
        let allowed = self.safe.map_or(0, |safe| self.retained.saturating_add(safe));
        reached.max(allowed).saturating_mul(2).div_ceil(MIB).max(1).saturating_mul(MIB)
    }
}

/// The timeout counts only while nobody streams.
const IDLE: &str = "let a router stream from the slot (`outbox-router run`), or allow longer \
    stops: `alter system set idle_replication_slot_timeout = 0`, then `select pg_reload_conf()`; \
    max_slot_wal_keep_size still limits what the slot costs";

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve() -> Reserve {
        Reserve {
            wal_status: WalStatus::Extended,
            invalidated_by: None,
            retained: 70 * MIB,
            safe: Some(40 * MIB),
            keep: Some(64 * MIB),
            idle_timeout: None,
            time: None,
            by: Some(SlotLimit::WalKeepSize),
        }
    }

    #[test]
    fn a_larger_limit_has_a_size_and_names_the_space_that_it_takes() {
        let passed = Reserve { wal_status: WalStatus::Unreserved, safe: Some(0), ..reserve() };
        let to_do = passed.to_do().unwrap();
        let hint = to_do.hint.unwrap();
        assert_eq!(to_do.code, Some("D013"));
        assert!(hint.contains("pg_wal has 70.0 MiB free: "), "{hint}");
        assert!(hint.contains("max_slot_wal_keep_size = '140MB', then select"), "{hint}");
        assert!(!hint.contains("= -1") && !hint.contains("'-1'"), "{hint}");
    }

    #[test]
    fn a_near_limit_is_to_do_and_a_far_one_is_not() {
        assert_eq!(reserve().to_do(), None);
        let time = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(Reserve { time: time(7_200), ..reserve() }.to_do(), None);
        let near = Reserve { time: time(600), ..reserve() }.to_do().unwrap();
        assert_eq!(
            near.message,
            "PostgreSQL invalidates the slot in 10 min (max_slot_wal_keep_size)"
        );
        // Nothing is written, and the next batch takes it.
        let little = Reserve { safe: Some(MIB), ..reserve() }.to_do().unwrap();
        assert!(little.message.contains("after 1.0 MiB more of WAL"), "{little:?}");
        let unlimited = Reserve { safe: None, keep: None, by: None, ..reserve() };
        assert_eq!(unlimited.to_do(), None);
    }

    #[test]
    fn a_timeout_is_not_helped_by_more_room() {
        let by = Some(SlotLimit::IdleTimeout);
        let idle = Reserve { time: Some(Duration::ZERO), by, ..reserve() }.to_do().unwrap();
        assert!(idle.hint.unwrap().contains("idle_replication_slot_timeout = 0"));
    }

    #[test]
    fn a_lost_slot_names_the_limit_that_took_it() {
        let lost = Reserve { wal_status: WalStatus::Lost, safe: None, ..reserve() };
        let to_do = lost.to_do().unwrap();
        let says = "max_slot_wal_keep_size is 64.0 MiB, and the slot was 70.0 MiB behind";
        assert!(to_do.message.ends_with(says), "{to_do:?}");
        assert!(to_do.hint.unwrap().contains("pg_wal has 140.0 MiB free: "));
        let by = |reason: &str| Reserve {
            invalidated_by: Some(reason.to_owned()),
            idle_timeout: Some(Duration::from_secs(60)),
            ..lost.clone()
        };
        let idle = by("idle_timeout").to_do().unwrap();
        assert!(idle.message.ends_with("idle_replication_slot_timeout (60 s)"), "{idle:?}");
        assert_eq!(by("rows_removed").to_do(), None, "no limit took it");
    }
}
