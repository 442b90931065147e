//! The stream of a slot that this router does not hold any more, while it is read to its end.

use pgoutput::{Frame, Lsn, Message};

use super::failure_history::During;
use crate::{
    clock::Moment,
    failure::{Class, Failure},
    source::Interval,
};

/// A stream that is read to its end.
pub(super) struct Leaving {
    /// Why the session ended, unless the server says more.
    pub(super) why: Failure,
    pub(super) until: Moment,
    /// The rows at risk, if the server names a gap.
    pub(super) at_risk: Interval,
    /// The position that was confirmed.
    pub(super) confirmed: Lsn,
    /// Where the transaction commits that is being sent.
    pub(super) open: Option<Lsn>,
}

impl Leaving {
    /// Discards a frame. A server that ends the stream with an error does so within a transaction,
    /// at a row that it cannot send: which one that is, its beginning alone says.
    pub(super) fn frame(&mut self, payload: &[u8]) {
        let Ok(Frame::XLogData(data)) = Frame::parse(payload) else { return };
        match Message::parse(data.data) {
            Ok(Message::Begin(begin)) => self.open = Some(begin.final_lsn),
            Ok(Message::Commit(_)) => self.open = None,
            Ok(_) | Err(_) => {}
        }
    }

    /// What is reported when the connection fails: a failed connection alone says less than that
    /// the slot is lost.
    pub(super) fn reported(&self, failure: Failure) -> (Failure, During) {
        let failure = match (failure.class(), failure.lsn, self.open) {
            (Class::Transport, ..) => self.why.clone(),
            (Class::Replay, None, Some(lsn)) => failure.at(lsn),
            (Class::Replay | Class::Mendable | Class::Gap | Class::Note, ..) => failure,
        };
        (failure, During::Streaming(self.confirmed))
    }
}
