//! How long until PostgreSQL invalidates the slot, and by which of its two limits.

use relay::source::SlotHealth;

/// How long until PostgreSQL may invalidate the slot, by the limit that is reached first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeToLimit {
    /// Seconds; infinite while the slot does not fall behind, zero when the limit is passed and the
    /// next checkpoint takes the slot.
    pub seconds: f64,
    /// The limit.
    pub limit: SlotLimit,
}

/// What PostgreSQL invalidates a slot for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotLimit {
    /// `max_slot_wal_keep_size`: it retains too much WAL.
    WalKeepSize,
    /// `idle_replication_slot_timeout` (18+): nobody has streamed from it for too long. It counts
    /// only while the slot is inactive.
    IdleTimeout,
}

impl SlotLimit {
    /// The setting's name, which is also the word in `/status.json`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WalKeepSize => "max_slot_wal_keep_size",
            Self::IdleTimeout => "idle_replication_slot_timeout",
        }
    }
}

/// The limit that is reached first. `wal_seconds` is the time to the first limit at the present
/// pace, `idle_timeout` the second limit, `clock` the server's clock, all in seconds.
pub(in crate::monitor) fn first_limit(
    slot: &SlotHealth,
    wal_seconds: Option<f64>,
    idle_timeout: Option<f64>,
    clock: f64,
) -> Option<TimeToLimit> {
    if slot.is_lost() {
        return None;
    }
    let idle_seconds = match (slot.is_active(), slot.inactive_since, idle_timeout) {
        (false, Some(since), Some(timeout)) => Some((since + timeout - clock).max(0.0)),
        _ => None,
    };
    let limits = [(wal_seconds, SlotLimit::WalKeepSize), (idle_seconds, SlotLimit::IdleTimeout)];
    limits
        .into_iter()
        .filter_map(|(seconds, limit)| Some(TimeToLimit { seconds: seconds?, limit }))
        .min_by(|one, other| one.seconds.total_cmp(&other.seconds))
}

#[cfg(test)]
mod tests {
    use relay::testing::samples;

    use super::*;

    /// Inactive since second 1000.
    fn idle() -> SlotHealth {
        SlotHealth { inactive_since: Some(1_000.0), ..samples::slot() }
    }

    fn check(slot: &SlotHealth, wal: Option<f64>, expected: Option<(f64, SlotLimit)>) {
        let first = first_limit(slot, wal, Some(300.0), 1_100.0);
        assert_eq!(first.map(|first| (first.seconds, first.limit)), expected);
    }

    #[test]
    fn the_nearer_limit_counts() {
        check(&idle(), Some(50.0), Some((50.0, SlotLimit::WalKeepSize)));
        check(&idle(), Some(250.0), Some((200.0, SlotLimit::IdleTimeout)));
        check(&idle(), Some(f64::INFINITY), Some((200.0, SlotLimit::IdleTimeout)));
        check(&idle(), None, Some((200.0, SlotLimit::IdleTimeout)));
    }

    #[test]
    fn a_slot_that_is_used_has_no_idle_timeout() {
        let used = SlotHealth { active_pid: Some(1), inactive_since: None, ..idle() };
        check(&used, Some(f64::INFINITY), Some((f64::INFINITY, SlotLimit::WalKeepSize)));
        check(&used, None, None);
    }

    #[test]
    fn a_limit_that_is_passed_leaves_no_time_and_a_lost_slot_has_none() {
        let passed = first_limit(&idle(), None, Some(60.0), 1_100.0);
        assert_eq!(passed.map(|passed| passed.seconds), Some(0.0));
        let lost = SlotHealth { invalidation_reason: Some("idle_timeout".to_owned()), ..idle() };
        check(&lost, None, None);
    }
}
