//! How long until PostgreSQL invalidates the slot, and by which limit: as the router computes it
//! over its last minutes, where one answers; else by one second of WAL.

use std::time::Duration;

use serde_json::Value;

use super::sample::SlotSample;
use crate::{monitor::watch::limit::SlotLimit, wording};

/// The line of the text output.
pub(super) fn limit(slot: &SlotSample, router: Option<&Value>) -> String {
    let reserve = slot.reserve();
    if reserve.is_lost() {
        let why = match (&reserve.invalidated_by, reserve.keep) {
            (Some(reason), Some(keep)) if reason == "wal_removed" => {
                format!(" (max_slot_wal_keep_size is {})", wording::bytes(keep))
            }
            (Some(reason), _) => format!(" ({reason})"),
            (None, Some(keep)) => format!(" (max_slot_wal_keep_size is {})", wording::bytes(keep)),
            (None, None) => String::new(),
        };
        return format!("passed: PostgreSQL has invalidated the slot{why}");
    }
    if reserve.is_passed() {
        let keep = reserve.keep.map(|keep| format!(" ({})", wording::bytes(keep)));
        let keep = keep.unwrap_or_default();
        return format!(
            "passed: the slot is past max_slot_wal_keep_size{keep}, and the next checkpoint takes it"
        );
    }
    let idle = reserve.idle_timeout.map(|timeout| idle(slot, timeout));
    match (slot.safe_wal_bytes, idle) {
        (None, None) => {
            "none: max_slot_wal_keep_size is not set, WAL grows until the disk is full".to_owned()
        }
        (None, Some(idle)) => {
            format!("{idle}; max_slot_wal_keep_size is not set, WAL grows until the disk is full")
        }
        (Some(safe), None) => of_wal(slot, safe, router),
        (Some(safe), Some(idle)) => format!("{}; {idle}", of_wal(slot, safe, router)),
    }
}

fn of_wal(slot: &SlotSample, safe: u64, router: Option<&Value>) -> String {
    let room = wording::bytes(safe);
    let roughly = |seconds| wording::roughly(Duration::from_secs(seconds));
    if let Some((SlotLimit::WalKeepSize, seconds)) = router.and_then(of_router) {
        return match seconds {
            Some(seconds) => format!("{room} of WAL more: in {} at this pace", roughly(seconds)),
            None => format!("{room} of WAL more; it does not come nearer"),
        };
    }
    match slot.seconds_of_wal() {
        Some(seconds) => format!(
            "{room} of WAL more: in {} if nothing is confirmed until then",
            roughly(seconds)
        ),
        None => format!("{room} of WAL more; no WAL is being written"),
    }
}

fn idle(slot: &SlotSample, timeout: Duration) -> String {
    let name = SlotLimit::IdleTimeout.as_str();
    match slot.idle_seconds_left() {
        Some(left) => {
            let left = wording::roughly(Duration::from_secs(left));
            format!("in {left} if nobody streams until then ({name})")
        }
        None => format!("{} after the last router ends ({name})", wording::roughly(timeout)),
    }
}

/// The router's limit, and its time in seconds; `None`: it does not come nearer.
fn of_router(router: &Value) -> Option<(SlotLimit, Option<u64>)> {
    let slot = router.get("slot")?;
    let by = slot.get("limited_by")?.as_str()?;
    let limit = [SlotLimit::WalKeepSize, SlotLimit::IdleTimeout]
        .into_iter()
        .find(|limit| limit.as_str() == by)?;
    let seconds = slot.get("seconds_to_limit")?.as_f64();
    let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Some((limit, seconds.map(|time| time.as_secs())))
}

/// For the JSON output: seconds, and the setting that is reached first.
pub(super) fn first(
    slot: &SlotSample,
    router: Option<&Value>,
) -> (Option<u64>, Option<&'static str>) {
    let reserve = slot.reserve();
    if reserve.is_lost() {
        return (None, None);
    }
    if reserve.is_passed() {
        return (Some(0), Some(SlotLimit::WalKeepSize.as_str()));
    }
    if let Some((limit, seconds)) = router.and_then(of_router) {
        return (seconds, Some(limit.as_str()));
    }
    let wal = slot.seconds_of_wal().map(|seconds| (seconds, SlotLimit::WalKeepSize));
    let idle = slot.idle_seconds_left().map(|seconds| (seconds, SlotLimit::IdleTimeout));
    let first = [wal, idle].into_iter().flatten().min_by_key(|(seconds, _)| *seconds);
    match first {
        Some((seconds, limit)) => (Some(seconds), Some(limit.as_str())),
        None => (None, slot.safe_wal_bytes.map(|_| SlotLimit::WalKeepSize.as_str())),
    }
}
