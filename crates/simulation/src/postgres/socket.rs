//! What lies in a socket, unread by the router.

use relay::Code;

/// What lies in the socket, unread by the router.
#[derive(Debug, Clone)]
pub enum SocketMessage {
    /// `CopyData`.
    Frame(Vec<u8>),
    /// `CopyData` larger than the router reads: only its beginning is kept.
    Oversized(Vec<u8>),
    /// The warning that a publication is missing.
    Notice,
    /// ErrorResponse, as the product's code for it.
    ErrorResponse(Code),
    /// The server's `CopyDone`.
    CopyDone,
}

impl SocketMessage {
    /// Whether it is a keepalive.
    pub(super) fn is_keepalive(&self) -> bool {
        matches!(self, Self::Frame(frame) if frame.first() == Some(&b'k'))
    }
}
