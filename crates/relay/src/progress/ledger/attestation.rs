//! [`Attestation`]: what travels with a write of the witness and comes back when the write is acknowledged.

use pgoutput::Lsn;

use super::entry::Load;
use crate::progress::ticket::SessionId;

/// Whether a position must be in the witness before the server may be told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// It must.
    Witness,
    /// There is no witness: what is settled may be told.
    None,
}

/// A settled position on its way into the witness. Neither `Clone` nor `Copy`, made by the ledger
/// alone: the position that may be told moves only when one comes back, so telling ahead of the
/// witness cannot be typed.
#[derive(Debug)]
#[must_use = "an attestation that is dropped leaves its position untold"]
pub(crate) struct Attestation {
    session: SessionId,
    position: Lsn,
    /// What leaves the window with it.
    load: Load,
}

impl Attestation {
    pub(super) fn new(session: SessionId, position: Lsn, load: Load) -> Self {
        Self { session, position, load }
    }

    /// What the witness says: everything before it is acknowledged.
    pub(crate) fn position(&self) -> Lsn {
        self.position
    }

    /// Position and load, in the session that made it.
    pub(super) fn redeem(self, session: SessionId) -> Option<(Lsn, Load)> {
        (self.session == session).then_some((self.position, self.load))
    }
}
