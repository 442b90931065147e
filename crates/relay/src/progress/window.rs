//! How much may lie past the confirmed position.

/// Limits of the window: what may lie past the last confirmed position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// In events. Also the bound on duplicates after a crash of the router.
    pub events: u64,
    /// In bytes of key, value, headers and the producer's book-keeping.
    pub bytes: u64,
}
