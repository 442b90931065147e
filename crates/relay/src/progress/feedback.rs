//! When a status update is due, and when the server's silence means that the connection is dead.
//!
//! A walsender that receives nothing for `wal_sender_timeout` closes the connection, so an update
//! is sent well within that time, whatever else happens. A reply that the server asks for is sent
//! at once, but at most ten times a second: a server that is stopping while something is
//! unconfirmed asks again after every reply, tens of thousands of times a second.
//!
//! In the other direction, an update may ask the server for a reply. A server that has nothing to
//! send must still answer it. If no answer comes, the connection is dead, even if it looks alive.

use std::time::Duration;

use pgoutput::Lsn;

use crate::{
    backlog::BacklogFrom,
    clock::Moment,
    progress::{ledger::Ledger, window::Window},
};

/// The least time between two updates, unless the window needs an update sooner.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// When one connection last sent and received, and who owes whom a reply.
#[derive(Debug)]
pub(crate) struct Feedback {
    timing: Timing,
    sent_at: Moment,
    sent_write: Lsn,
    received_at: Moment,
    /// The server asked for a reply and has not had it.
    owed: Owed,
    /// When an update asked the server for a reply that has not come.
    reply_requested_at: Option<Moment>,
    /// Where frames come from. Those of a backlog that is read by SQL say nothing of the walsender,
    /// which holds the slot: it has to be heard itself.
    frames: BacklogFrom,
}

/// Intervals of status updates and silence: updates well within `wal_sender_timeout`, silence at
/// most as long.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// An update is sent at least this often.
    pub status_interval: Duration,
    /// A server that has been silent for this long counts as gone. After half of this time it is
    /// asked for a reply.
    pub silence_limit: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Nothing,
    Reply,
}

/// Whether the socket is being read: while it is not, the server's silence means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketRead {
    On,
    Off,
}

/// What is due now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// An update.
    Update,
    /// An update that asks for a reply.
    UpdateRequestingReply,
    /// None: the server did not answer, and the connection is dead.
    ServerSilent,
}

impl Feedback {
    pub(crate) fn new(timing: Timing, at: Moment) -> Self {
        Self {
            timing,
            sent_at: at,
            sent_write: Lsn::ZERO,
            received_at: at,
            owed: Owed::Nothing,
            reply_requested_at: None,
            frames: BacklogFrom::Stream,
        }
    }

    /// From now on frames come from here.
    pub(crate) fn frames_come_from(&mut self, frames: BacklogFrom) {
        self.frames = frames;
    }

    /// A frame came.
    #[inline]
    pub(crate) fn received_frame(&mut self, at: Moment) {
        if self.frames == BacklogFrom::Stream {
            self.received(at);
        }
    }

    /// Something arrived from the walsender, so it is alive.
    #[inline]
    pub(crate) fn received(&mut self, at: Moment) {
        self.received_at = at;
        self.reply_requested_at = None;
    }

    /// Whether the server waits for a reply.
    pub(crate) fn is_owed(&self) -> bool {
        self.owed == Owed::Reply
    }

    /// The server asked for a reply.
    pub(crate) fn owe(&mut self) {
        self.owed = Owed::Reply;
    }

    /// An update was sent that reports `write` as received.
    pub(crate) fn sent(&mut self, due: Due, write: Lsn, at: Moment) {
        self.sent_at = at;
        self.sent_write = write;
        self.owed = Owed::Nothing;
        if due == Due::UpdateRequestingReply {
            self.reply_requested_at = Some(at);
        }
    }

    /// What is due.
    pub(crate) fn due(
        &mut self,
        at: Moment,
        ledger: &Ledger,
        received: Lsn,
        window: Window,
        socket_read: SocketRead,
    ) -> Due {
        if socket_read == SocketRead::Off && self.frames == BacklogFrom::Stream {
            self.received(at);
        }
        match self.reply_requested_at {
            Some(asked) if at >= asked + self.timing.silence_limit / 2 => return Due::ServerSilent,
            None if at >= self.received_at + self.timing.silence_limit / 2 => {
                return Due::UpdateRequestingReply;
            }
            Some(_) | None => {}
        }
        let has_news = ledger.confirmable() > ledger.confirmed() || received > self.sent_write;
        let waits = at < self.sent_at + SHORTEST_INTERVAL;
        if ledger.is_worth_confirming(window)
            || (!waits && (has_news || self.owed == Owed::Reply))
            || at >= self.sent_at + self.timing.status_interval
        {
            Due::Update
        } else {
            Due::Nothing
        }
    }

    /// When [`Feedback::due`] must be called again at the latest.
    pub(crate) fn deadline(&self, ledger: &Ledger, received: Lsn) -> Moment {
        let has_news = ledger.confirmable() > ledger.confirmed() || received > self.sent_write;
        let update = if has_news || self.owed == Owed::Reply {
            self.sent_at + SHORTEST_INTERVAL
        } else {
            self.sent_at + self.timing.status_interval
        };
        let silence =
            self.reply_requested_at.unwrap_or(self.received_at) + self.timing.silence_limit / 2;
        update.min(silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::{WitnessStore, ticket::SessionId};
    use pgoutput::{Begin, PgTimestamp};

    const TIMING: Timing =
        Timing { status_interval: Duration::from_secs(3), silence_limit: Duration::from_secs(10) };
    const WINDOW: Window = Window { events: 100, bytes: 1 << 20 };

    fn at(millis: u64) -> Moment {
        Moment::new(Duration::from_millis(millis))
    }

    fn idle() -> (Feedback, Ledger) {
        (Feedback::new(TIMING, at(0)), Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory))
    }

    #[test]
    fn an_idle_connection_is_kept_alive() {
        let (mut feedback, ledger) = idle();
        feedback.received(at(2_500));
        assert_eq!(
            feedback.due(at(2_999), &ledger, Lsn::ZERO, WINDOW, SocketRead::On),
            Due::Nothing
        );
        assert_eq!(
            feedback.due(at(3_000), &ledger, Lsn::ZERO, WINDOW, SocketRead::On),
            Due::Update
        );
    }

    #[test]
    fn a_flood_of_reply_requests_gets_at_most_ten_replies_a_second() {
        let (mut feedback, ledger) = idle();
        let mut replies = 0;
        for millis in 0..1_000 {
            feedback.received(at(millis));
            feedback.owe();
            let due = feedback.due(at(millis), &ledger, Lsn::ZERO, WINDOW, SocketRead::On);
            if due == Due::Update {
                replies += 1;
                feedback.sent(due, Lsn::ZERO, at(millis));
            }
        }
        assert_eq!(replies, 9);
    }

    #[test]
    fn a_silent_server_is_asked_for_a_reply_once_and_then_given_up() {
        let (mut feedback, ledger) = idle();
        let ask = |feedback: &mut Feedback, millis| {
            feedback.due(at(millis), &ledger, Lsn::ZERO, WINDOW, SocketRead::On)
        };
        assert_eq!(ask(&mut feedback, 5_000), Due::UpdateRequestingReply);
        feedback.sent(Due::UpdateRequestingReply, Lsn::ZERO, at(5_000));
        assert_eq!(ask(&mut feedback, 8_000), Due::Update);
        assert_eq!(ask(&mut feedback, 10_000), Due::ServerSilent);
        feedback.received(at(10_000));
        assert_ne!(ask(&mut feedback, 10_001), Due::ServerSilent);
    }

    #[test]
    fn a_server_that_is_not_read_is_not_reported_as_silent() {
        let (mut feedback, ledger) = idle();
        let due = feedback.due(at(60_000), &ledger, Lsn::ZERO, WINDOW, SocketRead::Off);
        assert_eq!(due, Due::Update);
        assert_ne!(
            feedback.due(at(60_001), &ledger, Lsn::ZERO, WINDOW, SocketRead::On),
            Due::UpdateRequestingReply
        );
    }

    #[test]
    fn a_new_position_waits_for_the_minimum_interval_but_a_full_window_does_not() {
        let (mut feedback, mut ledger) = idle();
        feedback.sent(Due::Update, Lsn::ZERO, at(1_000));
        ledger.keepalive(Lsn::from_u64(8));
        let due = |feedback: &mut Feedback, ledger: &Ledger, millis| {
            feedback.received(at(millis));
            feedback.due(at(millis), ledger, Lsn::from_u64(8), WINDOW, SocketRead::On)
        };
        assert_eq!(due(&mut feedback, &ledger, 1_050), Due::Nothing);
        assert_eq!(due(&mut feedback, &ledger, 1_100), Due::Update);
        assert_eq!(feedback.deadline(&ledger, Lsn::from_u64(8)), at(1_100));
        let narrow = Window { events: 4, bytes: 1 << 20 };
        let (final_lsn, committed_at) = (Lsn::from_u64(16), PgTimestamp::from_micros(0));
        ledger.begin(&Begin { final_lsn, committed_at, xid: pgoutput::Xid::from_u32(7) }).unwrap();
        let ticket = ledger.issue(10).unwrap();
        ledger.commit(Lsn::from_u64(16), Lsn::from_u64(24)).unwrap();
        let mut acks = crate::Acks::default();
        acks.push(ticket, crate::TopicId::from_index(0).unwrap());
        ledger.credit(&acks.runs()[0]).unwrap();
        let due = feedback.due(at(1_051), &ledger, Lsn::from_u64(8), narrow, SocketRead::On);
        assert_eq!(due, Due::Update);
    }
}
