//! Why streaming may not start.

use super::gap::Gap;
use crate::failure::Failure;

/// The result of the checks before a stream, where it may not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// Another process streams from the slot: this router becomes a standby.
    SlotInUse {
        /// Its walsender.
        pid: i32,
    },
    /// Rows may be missing: every gap that was found, the most severe first, at least one.
    Gaps(Vec<Gap>),
    /// This is not the witness's server. Every reading of this server shows it and no reading of
    /// the right one does, so it is reported and not written into the witness.
    OtherServer(Box<Gap>),
    /// Something else is wrong.
    Failed(Failure),
}

impl From<Failure> for Obstacle {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
