//! [`Attestation`]: a settled position that travels with a write of the witness, and becomes
//! confirmable when the write is acknowledged.

use pgoutput::Lsn;

use super::entry::Load;
use crate::progress::ticket::SessionId;

/// Whether a settled position must be in the witness before it is confirmable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// It must be.
    Witness,
    /// There is no witness: what is settled is confirmable.
    None,
}

/// A settled position on its way into the witness. Only the ledger makes it, and it is neither
/// `Clone` nor `Copy`. The confirmable position moves only when an attestation comes back, so
/// confirming ahead of the witness does not compile.
#[derive(Debug)]
#[must_use = "an attestation that is dropped never becomes confirmable"]
pub(crate) struct Attestation {
    session: SessionId,
    position: Lsn,
    /// The events up to the position; they leave the window with it.
    load: Load,
}

impl Attestation {
    pub(super) fn new(session: SessionId, position: Lsn, load: Load) -> Self {
        Self { session, position, load }
    }

    /// The position that the witness will name: everything before it is acknowledged.
    pub(crate) fn position(&self) -> Lsn {
        self.position
    }

    /// Consumes the attestation: its position and load, or `None` if another session made it.
    pub(super) fn redeem(self, session: SessionId) -> Option<(Lsn, Load)> {
        (self.session == session).then_some((self.position, self.load))
    }
}
