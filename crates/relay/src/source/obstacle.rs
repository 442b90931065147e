//! Why streaming may not start.

use super::gap::Gap;
use crate::failure::Failure;

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// Another process streams from the slot: stand by.
    SlotInUse {
        /// Its walsender.
        pid: i32,
    },
    /// Rows may be missing: everything that shows it, the gravest first, and at least one.
    Gaps(Vec<Gap>),
    /// This is not the server that the witness speaks of, and shows it to whoever looks. Whoever
    /// reaches the right one sees nothing of it, so it is not written down.
    Elsewhere(Box<Gap>),
    /// Something else is wrong.
    Failed(Failure),
}

impl From<Failure> for Obstacle {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
