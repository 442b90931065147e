//! Moments of a server's past.

/// The server's state at a moment that it may be taken back to.
#[derive(Debug, Clone, Copy)]
pub(super) struct RestorePoint {
    pub(super) end_of_wal: u64,
    pub(super) saved: u64,
}
