//! Whether anything moves: the positions of the pipeline, compared with the furthest that they ever
//! were. Repeating what was sent before is no progress, so a router that begins again and again
//! does not look alive.

use std::time::Duration;

use relay::{Lsn, Snapshot, source::History};
use tokio::time::Instant;

use super::Facts;

/// Less than this is what one keepalive leaves behind.
const OUTSTANDING_MIN: u64 = 1 << 20;

/// When a position last moved.
#[derive(Debug, Clone)]
pub struct Progress {
    furthest: Positions,
    of: Course,
    moved_at: Instant,
}

/// The furthest that was received, acknowledged and confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Positions {
    received: Lsn,
    settled: Lsn,
    confirmed: Lsn,
}

/// What positions belong to. On another server, or behind an accepted gap, they begin anew.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Course {
    history: Option<History>,
    accepted: usize,
}

impl Course {
    fn of(snapshot: &Snapshot) -> Self {
        let history = snapshot.baseline.as_ref().map(|baseline| baseline.server.history.clone());
        Self { history, accepted: snapshot.witness.accepted.len() }
    }
}

impl Positions {
    const NOWHERE: Self = Self { received: Lsn::ZERO, settled: Lsn::ZERO, confirmed: Lsn::ZERO };

    fn of(snapshot: &Snapshot) -> Self {
        let Snapshot { received, settled, confirmed, .. } = *snapshot;
        Self { received, settled, confirmed }
    }

    fn furthest(self, other: Self) -> Self {
        Self {
            received: self.received.max(other.received),
            settled: self.settled.max(other.settled),
            confirmed: self.confirmed.max(other.confirmed),
        }
    }
}

impl Progress {
    /// Nothing has moved yet.
    pub fn begin(now: Instant) -> Self {
        Self { furthest: Positions::NOWHERE, of: Course::default(), moved_at: now }
    }

    /// Takes the positions of this moment. While nothing is outstanding there is nothing to move.
    pub fn observe(&mut self, facts: &Facts<'_>, now: Instant) {
        let of = Course::of(facts.snapshot);
        if of != self.of {
            *self = Self { furthest: Positions::NOWHERE, of, moved_at: self.moved_at };
        }
        let furthest = self.furthest.furthest(Positions::of(facts.snapshot));
        if furthest != self.furthest || !is_outstanding(facts) {
            self.moved_at = now;
        }
        self.furthest = furthest;
    }

    /// For how long nothing has moved although something is outstanding.
    pub fn without(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.moved_at)
    }
}

/// Whether something has to move. What another router delivers is not this one's to move.
fn is_outstanding(facts: &Facts<'_>) -> bool {
    let snapshot = facts.snapshot;
    if snapshot.condition.state == relay::State::Standby {
        return false;
    }
    snapshot.oldest_unacked.is_some()
        || snapshot.unacked_events > 0
        || facts.bytes_behind.is_some_and(|bytes| bytes >= OUTSTANDING_MIN)
}

#[cfg(test)]
mod tests {
    use relay::{
        State, Window,
        testing::samples::{empty_snapshot, slot, snapshot},
    };

    use super::*;
    use crate::{
        monitor::{MonitorReport, ObservedSlot, RelayReport, Thresholds},
        status::Limits,
    };

    const LIMITS: Limits = Limits {
        thresholds: Thresholds { warning: 1 << 30, critical: 2 << 30 },
        window: Window { events: 1_000, bytes: 1 << 20 },
    };

    struct Pipeline {
        progress: Progress,
        relay: RelayReport,
        monitor: MonitorReport,
        now: Instant,
    }

    impl Pipeline {
        /// 60 MiB behind.
        fn new() -> Self {
            let now = Instant::now();
            let mut monitor = MonitorReport::initial(now);
            monitor.slot = ObservedSlot::Seen(slot());
            let snapshot = snapshot(State::Streaming);
            let mut pipeline = Self {
                progress: Progress::begin(now),
                relay: RelayReport { snapshot, backlog_until: None, published_at: now },
                monitor,
                now,
            };
            pipeline.after(0);
            pipeline
        }

        /// For how many seconds nothing has moved, so many seconds later.
        fn after(&mut self, seconds: u64) -> u64 {
            self.now += Duration::from_secs(seconds);
            let facts = Facts::of(&self.relay, &self.monitor, LIMITS, self.now);
            self.progress.observe(&facts, self.now);
            self.progress.without(self.now).as_secs()
        }
    }

    #[test]
    fn only_a_position_that_was_not_reached_before_is_progress() {
        let mut pipeline = Pipeline::new();
        assert_eq!(pipeline.after(30), 30);
        pipeline.relay.snapshot.settled = Lsn::from_u64(51 << 20);
        assert_eq!(pipeline.after(5), 0);
        // A session that begins again repeats what it had received.
        let received = pipeline.relay.snapshot.received;
        pipeline.relay.snapshot.received = pipeline.relay.snapshot.confirmed;
        assert_eq!(pipeline.after(5), 5);
        pipeline.relay.snapshot.received = received;
        assert_eq!(pipeline.after(5), 10);
    }

    #[test]
    fn where_nothing_is_outstanding_nothing_has_to_move() {
        let mut pipeline = Pipeline::new();
        pipeline.relay.snapshot = empty_snapshot(State::Streaming);
        let position = slot().confirmed_flush_lsn.unwrap();
        let near = relay::source::SlotHealth { current_wal_lsn: position, ..slot() };
        pipeline.monitor.slot = ObservedSlot::Seen(near);
        assert_eq!(pipeline.after(3_600), 0);
        pipeline.relay.snapshot.oldest_unacked = Some(relay::PgTimestamp::from_unix_micros(1));
        assert_eq!(pipeline.after(10), 10);
        pipeline.relay.snapshot.condition.state = State::Standby;
        assert_eq!(pipeline.after(10), 0, "the router that holds the slot delivers it");
    }
}
