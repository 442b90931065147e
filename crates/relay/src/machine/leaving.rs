//! What follows when the server says that this router does not hold the slot.
//!
//! Either the server has given the slot to another router, or it has ended this stream with an
//! error: PostgreSQL releases the slot then. That error lies behind the rows in the socket. A
//! router that closed the connection without reading it would connect again, come to the same row,
//! be told again that it does not hold the slot, and never report why. So it produces and confirms
//! nothing more, reads the rest of the stream, and discards all of it but the error, and where the
//! transaction commits within which that comes.

use std::time::Duration;

use super::{Phase, Relay, lost_stream::Leaving};
use crate::{
    clock::Moment,
    failure::Failure,
    protocol::{Action, FrameOutcome},
};

/// How long to read. What the server sent before it ended the stream is on the way at most, and a
/// router whose connection is cut off without a trace should soon watch for the slot again.
const READ_TO_END: Duration = Duration::from_secs(2);

impl Relay {
    /// This router does not hold the slot: the session ends, or the attempt to begin one, and the
    /// stream is read to its end.
    pub(super) fn leave(&mut self, why: Failure, at: Moment) {
        let (confirmed, open) = match &self.phase {
            Phase::Streaming(session) => {
                (session.ledger.confirmed(), session.ledger.open_commit_lsn())
            }
            Phase::Connecting(attempt) => (self.confirmed.max(attempt.slot_at()), None),
            Phase::Waiting { .. }
            | Phase::Standby { .. }
            | Phase::Leaving(_)
            | Phase::Halted(_)
            | Phase::Exited => return,
        };
        let at_risk = self.interval_at_risk();
        self.leave_session(at);
        let until = at + READ_TO_END;
        self.phase = Phase::Leaving(Box::new(Leaving { why, until, at_risk, confirmed, open }));
    }

    /// Takes a frame that no session wants.
    #[cold]
    pub(super) fn discard(&mut self, payload: &[u8]) -> FrameOutcome {
        if let Phase::Leaving(leaving) = &mut self.phase {
            leaving.frame(payload);
        }
        FrameOutcome::Taken
    }

    /// Closes the connection when it has been read for long enough, or when the process stops.
    pub(super) fn proceed_leaving(&mut self, at: Moment) {
        let Phase::Leaving(leaving) = &self.phase else { return };
        if self.drain_by.is_some() || leaving.until <= at {
            let why = leaving.why.clone();
            self.disconnect(why, at);
        }
    }

    /// Closes the connection that is read to its end.
    pub(super) fn stop_reading(&mut self) {
        if let Phase::Leaving(_) = &self.phase {
            self.actions.push_back(Action::Disconnect);
        }
    }
}
