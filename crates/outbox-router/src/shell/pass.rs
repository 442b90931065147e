//! One pass hands the frames that were read to the core, for a bounded time.

use std::{io, time::Duration};

use relay::{BacklogFrom, Code, Failure, FrameOutcome, Input};
use tokio::time::Instant;

use super::{
    Shell,
    ports::{Kafka, Postgres},
    translate,
};
use crate::postgres::{
    Fill, Incoming, ProtocolError, ReplicationStream, ServerMessage, protocol_failure,
    stream_failure,
};

/// The longest that acknowledgements and status updates wait for a pass.
const PASS_LIMIT: Duration = Duration::from_millis(5);
/// How many frames are handed over between two readings of the clock.
const FRAMES_PER_TIME_CHECK: u32 = 64;

/// Why the stream ended during a pass.
enum PassEnd {
    Broken(ProtocolError),
    Refused(ServerMessage),
    StreamEnded,
    Closed,
}

impl PassEnd {
    /// The failure where the backlog was read by SQL: another connection than the stream's.
    fn of_backlog(self) -> Failure {
        let why = match self {
            Self::Broken(error) => protocol_failure(error),
            Self::Refused(message) => stream_failure(&message),
            Self::StreamEnded | Self::Closed => translate::closed(),
        };
        let what = format!("the backlog cannot be read on by SQL: {}", why.message_with_causes());
        Failure::new(Code::Backlog, what)
    }
}

impl<P: Postgres, K: Kafka> Shell<P, K> {
    /// Handles the result of a read.
    pub(super) fn filled(&mut self, fill: io::Result<Fill>) {
        match fill {
            Ok(Fill::Bytes(_)) => {
                self.backlog.heard();
                if self.stream.as_mut().is_some_and(|stream| matches!(stream.peek(), Ok(None))) {
                    // Only a part of a large row has arrived, so no frame shows the core that the
                    // server is alive.
                    self.input(Input::BytesArrived);
                }
                let reads_on = |s: &ReplicationStream| s.is_full() || s.backlog_until().is_some();
                if self.stream.as_ref().is_some_and(reads_on) {
                    self.coalesce.overflowed();
                } else {
                    self.coalesce.took(Instant::now());
                }
            }
            Ok(Fill::NoRoom | Fill::Closed) => {}
            Err(error) => self.disconnected(translate::broken(error)),
        }
    }

    /// Offers frames to the core until the core wants no more, none is left, or the time is up.
    pub(super) fn pass(&mut self) {
        let started = Instant::now();
        let mut read_at = started;
        loop {
            let by_sql = self.stream.as_ref().is_some_and(|s| s.backlog_until().is_some());
            let end = self.offer_some();
            match end {
                None => {}
                Some(end) if by_sql => self.disconnected(end.of_backlog()),
                Some(PassEnd::Broken(error)) => self.disconnected(protocol_failure(error)),
                Some(PassEnd::Refused(message)) => self.disconnected(stream_failure(&message)),
                Some(PassEnd::StreamEnded) => {
                    self.stream = None;
                    self.input(Input::StreamEnded);
                }
                Some(PassEnd::Closed) => self.disconnected(translate::closed()),
            }
            if by_sql && self.stream.as_ref().is_some_and(|s| s.backlog_until().is_none()) {
                self.input(Input::FramesFrom(BacklogFrom::Stream));
            }
            let is_done = !self.relay.wants_wal()
                || self.stream.as_mut().is_none_or(|s| matches!(s.peek(), Ok(None)));
            let now = Instant::now();
            if is_done || now - started >= PASS_LIMIT {
                return;
            }
            self.read_ahead(&mut read_at, now);
        }
    }

    /// For how long to let the socket fill before the next read.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        let stream = self.stream.as_ref().filter(|stream| stream.backlog_until().is_none())?;
        let segments = || stream.segments_received();
        self.pacing.pause(self.relay.pace(), Instant::now(), segments)
    }

    /// Reads during a long pass, so that the server does not have to wait.
    fn read_ahead(&mut self, read_at: &mut Instant, now: Instant) {
        let Some(stream) = &mut self.stream else { return };
        if now - *read_at >= stream.max_unread() {
            stream.fill_now();
            *read_at = now;
        }
    }

    /// Offers up to [`FRAMES_PER_TIME_CHECK`] frames, all with the same time.
    fn offer_some(&mut self) -> Option<PassEnd> {
        let now = self.clock.now();
        // Without a producer the core has no session, and takes no frames.
        let Self { relay, stream: Some(stream), sink: Some(sink), tap, pacing, .. } = self else {
            return None;
        };
        tap.refresh();
        for _ in 0..FRAMES_PER_TIME_CHECK {
            if !relay.wants_wal() {
                return None;
            }
            let outcome = match stream.peek() {
                Ok(None) => return None,
                Ok(Some(Incoming::Frame(payload))) => {
                    let outcome = relay.frame(payload, now, sink);
                    if outcome == FrameOutcome::Taken {
                        pacing.took(payload.len());
                        if !tap.is_idle() {
                            tap.taken(relay, payload);
                        }
                    }
                    outcome
                }
                Ok(Some(Incoming::Oversized { announced, prefix })) => {
                    let outcome = relay.oversized(announced, prefix, now, sink);
                    if !tap.is_idle() && outcome == FrameOutcome::Taken {
                        tap.taken(relay, prefix);
                    }
                    outcome
                }
                Ok(Some(Incoming::Notice(notice))) => {
                    let notice = translate::logged_notice(notice);
                    relay.handle(Input::Notice(&notice), now);
                    FrameOutcome::Taken
                }
                Ok(Some(Incoming::CopyDone)) => return Some(PassEnd::StreamEnded),
                Ok(Some(Incoming::Error(message))) => return Some(PassEnd::Refused(message)),
                Ok(Some(Incoming::Closed)) => return Some(PassEnd::Closed),
                Err(error) => return Some(PassEnd::Broken(error)),
            };
            match outcome {
                FrameOutcome::Taken => stream.consume(),
                FrameOutcome::NotTaken => return None,
            }
        }
        None
    }
}
