//! What the session tells the server.

use pgoutput::ReplyRequest;

use super::{Course, Session};
use crate::{
    clock::Now,
    failure::{Code, Failure},
    progress::{
        feedback::{Due, Listening},
        window::Window,
    },
    protocol::StatusUpdate,
};

impl Session {
    /// The status update that is due, if any; `Err` when the server no longer answers. Whether it
    /// is listened to is the relay's answer: more than the session decides whether the socket is
    /// read.
    pub(crate) fn update(
        &mut self,
        now: Now,
        window: Window,
        listening: Listening,
    ) -> Result<Option<StatusUpdate>, Failure> {
        let due = self.feedback.due(now.at, &self.ledger, self.received, window, listening);
        let reply = match due {
            Due::Nothing => return Ok(None),
            Due::Silence => {
                return Err(Failure::new(
                    Code::ServerSilent,
                    "the walsender no longer answers, although the connection looks alive",
                ));
            }
            Due::Update => ReplyRequest::Optional,
            Due::Question => ReplyRequest::Requested,
        };
        Ok(Some(self.status(now, due, reply)))
    }

    /// The last update before `CopyDone`.
    pub(crate) fn last_update(&mut self, now: Now) -> StatusUpdate {
        self.course = Course::Finishing;
        self.status(now, Due::Update, ReplyRequest::Optional)
    }

    /// What may be told and was not, before we close a connection that is whole: what is thrown
    /// away here is produced again.
    pub(crate) fn final_status(&mut self, now: Now) -> Option<StatusUpdate> {
        let untold = self.ledger.confirmable() > self.ledger.confirmed();
        // Nothing may follow `CopyDone`.
        (untold && self.course != Course::Finishing)
            .then(|| self.status(now, Due::Update, ReplyRequest::Optional))
    }

    /// Whether the server waits for an answer.
    pub(crate) fn owes_reply(&self) -> bool {
        self.feedback.is_owed()
    }

    /// Part of a frame arrived.
    pub(crate) fn heard(&mut self, now: Now) {
        self.feedback.heard(now.at);
    }

    fn status(&mut self, now: Now, due: Due, reply: ReplyRequest) -> StatusUpdate {
        let flush = self.ledger.confirm();
        let write = self.received.max(flush.lsn());
        self.feedback.sent(due, self.received, now.at);
        StatusUpdate { write, flush, clock: now.wall, reply }
    }
}
