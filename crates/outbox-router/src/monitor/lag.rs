//! How far the slot is behind, split by who has to act next.

use std::time::Duration;

use relay::{
    Failure, Snapshot, State, Window,
    source::{SlotHealth, bytes_between},
};

/// WAL between the server's current position and the slot's `confirmed_flush_lsn`, in bytes, by
/// what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lag {
    /// Written by the server, not yet received by this router.
    pub unread: u64,
    /// Received, not yet acknowledged by Kafka.
    pub unacked: u64,
    /// Acknowledged by Kafka, not yet in the slot's `confirmed_flush_lsn`.
    pub unconfirmed: u64,
}

impl Lag {
    /// Splits what the slot is behind. `None` while another router holds the slot: only the holder
    /// knows what it has received and what is acknowledged.
    pub fn split(snapshot: &Snapshot, slot: &SlotHealth) -> Option<Self> {
        if snapshot.condition.state == State::Standby {
            return None;
        }
        let confirmed = slot.confirmed_flush_lsn.unwrap_or(snapshot.confirmed);
        // Before the first frame of a session, nothing past the slot's own position has been
        // received. What was received since the slot was read is no part of what it was behind.
        let end = slot.current_wal_lsn.max(confirmed);
        let received = snapshot.received.max(confirmed).min(end);
        let settled = snapshot.settled.max(confirmed).min(received);
        Some(Self {
            unread: bytes_between(received, slot.current_wal_lsn),
            unacked: bytes_between(settled, received),
            unconfirmed: bytes_between(confirmed, settled),
        })
    }
}

/// Who has to act before the slot can move on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The slot waits for nobody: at every stage it is less than 1 MiB behind.
    Nobody,
    /// The server: it is not reachable, or its walsender has not sent what is written.
    Postgres,
    /// This router, or a row that it may not skip.
    Router,
    /// The brokers: they acknowledge nothing, or more slowly than events arrive.
    Kafka,
    /// The other router, which holds the slot.
    Holder,
}

/// After this time without an acknowledgement, the cause is no longer one slow batch of a broker.
const ACK_OVERDUE: Duration = Duration::from_secs(2);

/// Less than this is what one keepalive leaves behind, and no delay that anybody causes.
const UNSENT_MIN: u64 = 1 << 20;

impl Blame {
    /// Every part.
    const ALL: [Self; 5] = [Self::Nobody, Self::Postgres, Self::Router, Self::Kafka, Self::Holder];

    /// The part with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|blame| blame.as_str() == word)
    }

    /// The word in `/status.json` and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Postgres => "postgresql",
            Self::Router => "router",
            Self::Kafka => "kafka",
            Self::Holder => "holder",
        }
    }

    /// Finds who has to act, from the core's state; while it streams, from the window and the
    /// largest stage of `lag`.
    pub fn find(snapshot: &Snapshot, lag: Option<Lag>, limits: Window) -> Self {
        match snapshot.condition.state {
            State::Standby => Self::Holder,
            // Nothing can be acknowledged: by Kafka, or by the table of held events.
            State::Blocked => match snapshot.condition.reason.as_ref().map(Self::of) {
                Some(Self::Postgres) => Self::Postgres,
                Some(_) | None => Self::Kafka,
            },
            State::Starting | State::Failed => {
                snapshot.condition.reason.as_ref().map_or(Self::Router, Self::of)
            }
            State::Streaming | State::Draining => Self::of_stream(snapshot, lag, limits),
        }
    }

    /// Who has to act on a failure, by the first letter of its code.
    pub(crate) fn of(failure: &Failure) -> Self {
        match failure.code.as_str().chars().next() {
            Some('P') => Self::Postgres,
            Some('K') => Self::Kafka,
            _ => Self::Router,
        }
    }

    fn of_stream(snapshot: &Snapshot, lag: Option<Lag>, limits: Window) -> Self {
        // The router does not read while the window is full, so what is unread then waits for Kafka
        // as well.
        let full = snapshot.window_events.saturating_mul(10) >= limits.events.saturating_mul(9)
            || snapshot.window_bytes.saturating_mul(10) >= limits.bytes.saturating_mul(9);
        let overdue = snapshot.waiting_for_ack.is_some_and(|waited| waited >= ACK_OVERDUE);
        if overdue || (full && snapshot.unacked_events > 0) {
            return Self::Kafka;
        }
        let Some(lag) = lag else { return Self::Nobody };
        if lag.unread.max(lag.unacked).max(lag.unconfirmed) < UNSENT_MIN {
            Self::Nobody
        } else if lag.unread >= lag.unacked && lag.unread >= lag.unconfirmed {
            Self::Postgres
        } else if lag.unacked >= lag.unconfirmed && snapshot.unacked_events > 0 {
            Self::Kafka
        } else {
            Self::Router
        }
    }
}

#[cfg(test)]
mod tests {
    use relay::{
        Code, Lsn,
        testing::samples::{slot, snapshot},
    };

    use super::*;

    const LIMITS: Window = Window { events: 1_000, bytes: 1 << 20 };

    fn blame(snapshot: &Snapshot) -> Blame {
        Blame::find(snapshot, Lag::split(snapshot, &slot()), LIMITS)
    }

    #[test]
    fn the_stages_sum_to_what_the_slot_is_behind() {
        let lag = Lag::split(&snapshot(State::Streaming), &slot()).unwrap();
        assert_eq!(lag, Lag { unread: 20 << 20, unacked: 30 << 20, unconfirmed: 10 << 20 });
        assert_eq!(lag.unread + lag.unacked + lag.unconfirmed, slot().bytes_behind());
    }

    /// The router's positions are of now, and the slot was read seconds ago.
    #[test]
    fn what_was_received_since_the_slot_was_read_waits_for_nobody() {
        let mut snapshot = snapshot(State::Streaming);
        snapshot.unacked_events = 0;
        (snapshot.received, snapshot.settled) = (Lsn::from_u64(90 << 20), Lsn::from_u64(90 << 20));
        let slot = SlotHealth { current_wal_lsn: Lsn::from_u64((40 << 20) + 100), ..slot() };
        let lag = Lag::split(&snapshot, &slot).unwrap();
        assert_eq!(lag, Lag { unread: 0, unacked: 0, unconfirmed: 100 });
        assert_eq!(Blame::find(&snapshot, Some(lag), LIMITS), Blame::Nobody);
    }

    #[test]
    fn before_the_first_frame_everything_is_unread() {
        let mut snapshot = snapshot(State::Starting);
        (snapshot.received, snapshot.settled) = (Lsn::from_u64(0), Lsn::from_u64(0));
        let lag = Lag::split(&snapshot, &slot()).unwrap();
        assert_eq!(lag, Lag { unread: 60 << 20, unacked: 0, unconfirmed: 0 });
    }

    #[test]
    fn a_router_that_waits_for_the_table_of_held_events_waits_for_postgresql() {
        let mut snapshot = snapshot(State::Blocked);
        for (code, who) in [
            (Code::ServerError, Blame::Postgres),
            (Code::ServerUnreachable, Blame::Postgres),
            (Code::KafkaUnreachable, Blame::Kafka),
        ] {
            snapshot.condition.reason = Some(Failure::new(code, "does not answer"));
            assert_eq!(blame(&snapshot), who);
        }
    }

    #[test]
    fn a_standby_does_not_guess_what_the_holder_waits_for() {
        let snapshot = snapshot(State::Standby);
        assert_eq!(Lag::split(&snapshot, &slot()), None);
        assert_eq!(blame(&snapshot), Blame::Holder);
    }

    #[test]
    fn a_full_window_attributes_what_is_unread_to_kafka_too() {
        let mut snapshot = snapshot(State::Streaming);
        snapshot.settled = snapshot.received;
        snapshot.received = Lsn::from_u64(45 << 20);
        assert_eq!(blame(&snapshot), Blame::Postgres);
        snapshot.window_events = 950;
        assert_eq!(blame(&snapshot), Blame::Kafka);
    }

    #[test]
    fn silence_of_the_broker_is_attributed_to_kafka() {
        let mut snapshot = snapshot(State::Streaming);
        snapshot.received = Lsn::from_u64(45 << 20);
        snapshot.waiting_for_ack = Some(Duration::from_secs(3));
        assert_eq!(blame(&snapshot), Blame::Kafka);
    }

    #[test]
    fn a_failure_is_attributed_by_its_code() {
        for (code, whose) in [
            (Code::SlotLost, Blame::Postgres),
            (Code::TopicMissing, Blame::Kafka),
            (Code::KeyIsNull, Blame::Router),
        ] {
            let mut snapshot = snapshot(State::Failed);
            snapshot.condition.reason = Some(Failure::new(code, "x"));
            assert_eq!(blame(&snapshot), whose);
        }
    }
}
