//! Whether anything moves: the positions of the pipeline, compared with the furthest that they ever
//! were. Repeating what was sent before is no progress, so a router that begins again and again
//! does not look alive.
//!
//! On a quiet outbox nothing is in flight and little WAL is written, and yet its server may send
//! nothing. A walsender that works sends a keepalive as soon as it has read all WAL, with its end
//! as position; so WAL that was there a minute ago and is not received is outstanding, too.

use std::time::Duration;

use relay::{Lsn, Snapshot, source::History};
use tokio::time::Instant;

use super::Facts;

/// Less than this is what one keepalive leaves behind.
const OUTSTANDING_MIN: u64 = 1 << 20;

/// After this time WAL is received, or a keepalive names a position past it. Less would not do: the
/// end of WAL may lie within a record whose rest is written with the next one, 15 s later.
const RECEIVED_WITHIN: Duration = Duration::from_secs(60);

/// When a position last moved.
#[derive(Debug, Clone)]
pub struct Progress {
    furthest: Positions,
    of: Course,
    /// When one of them was last further than before.
    advanced_at: Instant,
    moved_at: Instant,
    /// The end of WAL at the earliest reading that is not received yet.
    unreceived: Option<EndOfWal>,
}

/// The end of WAL when the slot was read.
#[derive(Debug, Clone, Copy)]
struct EndOfWal {
    lsn: Lsn,
    read_at: Instant,
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
        Self {
            furthest: Positions::NOWHERE,
            of: Course::default(),
            advanced_at: now,
            moved_at: now,
            unreceived: None,
        }
    }

    /// Takes the positions of this moment. While nothing is outstanding there is nothing to move.
    pub fn observe(&mut self, facts: &Facts<'_>, now: Instant) {
        let of = Course::of(facts.snapshot);
        if of != self.of {
            let (furthest, unreceived) = (Positions::NOWHERE, None);
            *self = Self { furthest, of, unreceived, ..*self };
        }
        self.observe_end_of_wal(facts);
        let furthest = self.furthest.furthest(Positions::of(facts.snapshot));
        if furthest != self.furthest {
            (self.advanced_at, self.moved_at) = (now, now);
        } else if let Some(since) = self.without_receiving(now) {
            self.moved_at = self.moved_at.min(since);
        } else if !is_outstanding(facts) {
            self.moved_at = now;
        }
        self.furthest = furthest;
    }

    /// Remembers the earliest reading whose end of WAL is not received.
    fn observe_end_of_wal(&mut self, facts: &Facts<'_>) {
        let received = facts.snapshot.received;
        let last = facts.monitor.watch.last.as_ref();
        let read = last
            .and_then(|last| Some((last.slot.as_ref()?.current_wal_lsn, last.read.at)))
            .filter(|_| facts.snapshot.has_session && facts.state() == relay::State::Streaming);
        let Some((lsn, read_at)) = read else {
            self.unreceived = None;
            return;
        };
        // Another server may have less WAL than the one that was read before.
        let is_still = |end: &EndOfWal| received < end.lsn && end.lsn <= lsn;
        let now = Some(EndOfWal { lsn, read_at }).filter(|end| received < end.lsn);
        self.unreceived = self.unreceived.filter(is_still).or(now);
    }

    /// Since when nothing was received although WAL is there that was there a minute ago.
    fn without_receiving(&self, now: Instant) -> Option<Instant> {
        let end = self.unreceived?;
        let is_overdue = now.saturating_duration_since(end.read_at) >= RECEIVED_WITHIN;
        is_overdue.then(|| end.read_at.max(self.advanced_at))
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
        monitor::{MonitorReport, ObservedSlot, Polled, RelayReport, Thresholds, watch::LastSlot},
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
                relay: RelayReport::initial(snapshot, now),
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

    /// Everything is delivered, and a session streams.
    fn quiet(received: u64) -> Snapshot {
        let position = Lsn::from_u64(received);
        Snapshot {
            received: position,
            settled: position,
            confirmed: position,
            ..empty_snapshot(State::Streaming)
        }
    }

    impl Pipeline {
        /// The monitor reads a slot that has confirmed everything up to `confirmed`.
        fn reads(&mut self, end_of_wal: u64, confirmed: u64) {
            let slot = relay::source::SlotHealth {
                current_wal_lsn: Lsn::from_u64(end_of_wal),
                confirmed_flush_lsn: Some(Lsn::from_u64(confirmed)),
                ..slot()
            };
            self.monitor.slot = ObservedSlot::Seen(slot.clone());
            self.monitor.watch.last = Some(LastSlot {
                read: Polled { at: self.now, wall: std::time::SystemTime::now() },
                server_clock: 0.0,
                slot: Some(slot),
                rates: None,
                to_limit: None,
            });
        }
    }

    #[test]
    fn a_server_that_sends_nothing_of_a_little_wal_is_noticed() {
        let mut pipeline = Pipeline::new();
        pipeline.relay.snapshot = quiet(1_000);
        pipeline.reads(1_000, 1_000);
        assert_eq!(pipeline.after(300), 0, "everything is received");
        pipeline.reads(1_300, 1_000);
        for _ in 0..5 {
            assert_eq!(pipeline.after(10), 0, "a record may be written in two parts");
            pipeline.reads(1_400, 1_000);
        }
        assert_eq!(pipeline.after(10), 60, "as long as the first reading is not received");
        assert_eq!(pipeline.after(5), 65);
        // What comes at last is progress, and the end of the silence.
        pipeline.relay.snapshot = quiet(1_400);
        assert_eq!(pipeline.after(1), 0);
        assert_eq!(pipeline.after(600), 0);
    }

    /// The server writes, the outbox does not.
    #[test]
    fn keepalives_that_name_the_end_of_wal_are_enough() {
        let mut pipeline = Pipeline::new();
        for round in 1..60_u64 {
            pipeline.relay.snapshot = quiet(round * 100);
            pipeline.reads(round * 100 + 50, round * 100);
            assert_eq!(pipeline.after(30), 0, "{round}");
        }
        // It is read less often than WAL is written, and what was read then was received since.
        pipeline.relay.snapshot = quiet(6_050);
        assert_eq!(pipeline.after(300), 0);
        pipeline.relay.snapshot.condition.state = State::Starting;
        pipeline.reads(9_000, 6_050);
        assert_eq!(pipeline.after(300), 0, "no walsender serves this router");
    }

    #[test]
    fn a_server_with_less_wal_does_not_make_the_former_end_outstanding() {
        let mut pipeline = Pipeline::new();
        pipeline.relay.snapshot = quiet(500);
        pipeline.reads(9_000, 500);
        pipeline.after(10);
        pipeline.reads(500, 500);
        assert_eq!(pipeline.after(300), 0);
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
