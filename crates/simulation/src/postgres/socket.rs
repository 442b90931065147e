//! What lies in a socket, unread by the router.

use relay::{Code, ServerNotice};

use super::publication::PUBLICATION;

/// What lies in the socket, unread by the router.
#[derive(Debug, Clone)]
pub enum SocketMessage {
    /// `CopyData`.
    Frame(Vec<u8>),
    /// `CopyData` larger than the router reads: only its beginning is kept.
    Oversized(Vec<u8>),
    /// A warning of the server.
    Warning(Warning),
    /// ErrorResponse, as the product's code for it.
    ErrorResponse(Code),
    /// The server's `CopyDone`.
    CopyDone,
}

/// What the server warns of. Both warnings have one SQLSTATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// A publication is missing: rows are skipped.
    PublicationSkipped,
    /// The walsender waits for a standby that is away.
    StandbyAway,
}

impl Warning {
    /// As PostgreSQL words it.
    pub fn notice(self) -> ServerNotice {
        // The standby's slot is called as the publication is.
        let (message, routine) = match self {
            Self::PublicationSkipped => {
                (format!("skipped loading publication \"{PUBLICATION}\""), "LoadPublications")
            }
            Self::StandbyAway => {
                let what = format!(
                    "replication slot \"{PUBLICATION}\" specified in parameter \
                     \"synchronized_standby_slots\" does not have active_pid"
                );
                (what, "StandbySlotsHaveCaughtup")
            }
        };
        ServerNotice { code: "55000".to_owned(), message, routine: Some(routine.to_owned()) }
    }
}

impl SocketMessage {
    /// Whether it is a keepalive.
    pub(super) fn is_keepalive(&self) -> bool {
        matches!(self, Self::Frame(frame) if frame.first() == Some(&b'k'))
    }
}
