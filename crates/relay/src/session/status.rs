//! The status updates of a session.

use pgoutput::ReplyRequest;

use super::{Session, SessionPhase};
use crate::{
    backlog::BacklogFrom,
    clock::Now,
    failure::{Code, Failure},
    progress::{
        feedback::{Due, SocketRead},
        window::Window,
    },
    protocol::StatusUpdate,
};

impl Session {
    /// The status update that is due, if any. The core says whether the socket is being read
    /// (`socket_read`), because that depends on more than the session.
    ///
    /// # Errors
    /// The server no longer answers (P009).
    pub(crate) fn update(
        &mut self,
        now: Now,
        window: Window,
        socket_read: SocketRead,
    ) -> Result<Option<StatusUpdate>, Failure> {
        let due = self.feedback.due(now.at, &self.ledger, self.received, window, socket_read);
        let reply = match due {
            Due::Nothing => return Ok(None),
            Due::ServerSilent => {
                return Err(Failure::new(
                    Code::ServerSilent,
                    "the walsender no longer answers, although the connection looks alive",
                ));
            }
            Due::Update => ReplyRequest::Optional,
            Due::UpdateRequestingReply => ReplyRequest::Requested,
        };
        Ok(Some(self.status(now, due, reply)))
    }

    /// The last update before `CopyDone`.
    pub(crate) fn finish(&mut self, now: Now) -> StatusUpdate {
        self.phase = SessionPhase::Finishing;
        self.status(now, Due::Update, ReplyRequest::Optional)
    }

    /// The update for what is confirmable and not yet confirmed, before the router closes an intact
    /// connection. Without it the server would send those events again.
    pub(crate) fn update_before_disconnect(&mut self, now: Now) -> Option<StatusUpdate> {
        let has_unsent = self.ledger.confirmable() > self.ledger.confirmed();
        // Nothing may follow `CopyDone`.
        (has_unsent && self.phase != SessionPhase::Finishing)
            .then(|| self.status(now, Due::Update, ReplyRequest::Optional))
    }

    /// Whether the server has asked for a reply that was not sent yet.
    pub(crate) fn owes_reply(&self) -> bool {
        self.feedback.is_owed()
    }

    /// From now on frames come from here.
    pub(crate) fn frames_come_from(&mut self, frames: BacklogFrom) {
        self.feedback.frames_come_from(frames);
    }

    /// Part of a frame arrived, so the server is alive.
    pub(crate) fn received_from_server(&mut self, now: Now) {
        self.feedback.received(now.at);
    }

    fn status(&mut self, now: Now, due: Due, reply: ReplyRequest) -> StatusUpdate {
        let flush = self.ledger.confirm();
        let write = self.received.max(flush.lsn());
        self.feedback.sent(due, self.received, now.at);
        StatusUpdate { write, flush, clock: now.wall, reply }
    }
}
