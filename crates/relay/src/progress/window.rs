//! How much may lie past the confirmable position.

/// Limits of the window: what lies past the last confirmable position. When it is full, the socket
/// is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// In events. This is also the bound on duplicates after a crash of the router.
    pub events: u64,
    /// In bytes of key, value, headers and the producer's book-keeping.
    pub bytes: u64,
}
