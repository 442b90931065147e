//! [`WitnessTicket`]: a settled position that travels with a write of the witness, and becomes
//! confirmable when the write is acknowledged.

use pgoutput::Lsn;

use super::entry::Load;
use crate::progress::ticket::SessionId;

/// A settled position on its way into the witness. Only the ledger makes it, and it is neither
/// `Clone` nor `Copy`: outside the ledger, only an acknowledged write of the witness makes the
/// confirmable position move. (A session starts with the slot's own position as confirmable where
/// the witness names that too.)
#[derive(Debug)]
#[must_use = "a ticket that is dropped never makes its position confirmable"]
pub(crate) struct WitnessTicket {
    session: SessionId,
    position: Lsn,
    /// The events up to the position; they leave the window with it.
    load: Load,
}

impl WitnessTicket {
    pub(super) fn new(session: SessionId, position: Lsn, load: Load) -> Self {
        Self { session, position, load }
    }

    /// The position that the witness will name: everything before it is acknowledged.
    pub(crate) fn position(&self) -> Lsn {
        self.position
    }

    /// Consumes the ticket: its position and load, or `None` if another session made it.
    pub(super) fn redeem(self, session: SessionId) -> Option<(Lsn, Load)> {
        (self.session == session).then_some((self.position, self.load))
    }
}
