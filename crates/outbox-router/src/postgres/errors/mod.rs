//! Errors that the server reports, and the one place where their meaning is decided.
//!
//! [`ServerErrorKind`] names the situation; whether to retry, wait or fail is decided by the core.
//! What is not recognised stays [`ServerErrorKind::Other`] with its SQLSTATE, and is not guessed.
//!
//! Message texts are translated by the server (`lc_messages`). So a situation is recognised by its
//! SQLSTATE and by the name of the server function that raised the error; the English text is used
//! only where several situations share both.

mod connect;

#[cfg(test)]
mod tests;

use std::fmt;

use thiserror::Error;

use relay::is_of_standby;

use super::frames::FrameError;

pub use connect::{ConnectError, ConnectErrorKind, TlsSetupError, UnsuitableConnection};

/// An ErrorResponse or NoticeResponse, with the fields that are shown or classified (manual,
/// section "Error and Notice Message Fields").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerMessage {
    /// `ERROR`, `FATAL`, `WARNING`, …, not translated (field `V`).
    pub severity: String,
    /// The SQLSTATE.
    pub code: String,
    /// The primary message, in the server's language.
    pub message: String,
    /// The secondary message, in the server's language.
    pub detail: Option<String>,
    /// The server's suggestion what to do.
    pub hint: Option<String>,
    /// The source-code function that raised the error.
    pub routine: Option<String>,
}

impl ServerMessage {
    /// Reads the fields of a message body. A damaged body or bytes that are not UTF-8 make the
    /// texts less readable, but are no error.
    #[must_use]
    pub fn parse(body: &[u8]) -> Self {
        let mut message = Self::default();
        let mut translated = String::new();
        for field in body.split(|byte| *byte == 0) {
            let Some((kind, text)) = field.split_first() else { break };
            let text = || String::from_utf8_lossy(text).into_owned();
            match kind {
                b'V' => message.severity = text(),
                b'S' => translated = text(),
                b'C' => message.code = text(),
                b'M' => message.message = text(),
                b'D' => message.detail = Some(text()),
                b'H' => message.hint = Some(text()),
                b'R' => message.routine = Some(text()),
                _ => {}
            }
        }
        // Servers before 9.6, and some that imitate PostgreSQL, leave `V` out.
        if message.severity.is_empty() {
            message.severity = translated;
        }
        message
    }

    /// What this message means for a connection that follows a slot.
    #[must_use]
    pub fn kind(&self) -> ServerErrorKind {
        classify(self)
    }

    /// What grants the use of the view or function of the system catalog that the message names, up
    /// to `to ROLE`; `None` where it names none, or is not in English.
    #[must_use]
    pub fn grant_on_catalog(&self) -> Option<String> {
        let object = self.message.strip_prefix("permission denied for ")?;
        let (kind, name) = object.split_once(' ')?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if self.code != PRIVILEGE || !name.starts_with("pg_") || !name.chars().all(is_word) {
            return None;
        }
        match kind {
            "view" | "table" => Some(format!("grant select on pg_catalog.{name}")),
            "function" => Some(format!("grant execute on function pg_catalog.{name}")),
            _ => None,
        }
    }

    /// Whether the secondary message may hold what is in a row: it goes where no content of events
    /// may go. Classes 22, "Data Exception", and 23, "Integrity Constraint Violation".
    fn is_about_a_row(&self) -> bool {
        self.code.starts_with("22") || self.code.starts_with("23")
    }

    fn raised_by(&self, routines: &[&str]) -> bool {
        self.routine.as_deref().is_some_and(|routine| routines.contains(&routine))
    }

    fn contains(&self, words: &str) -> bool {
        self.message.contains(words)
            || self.detail.as_deref().is_some_and(|detail| detail.contains(words))
    }
}

impl fmt::Display for ServerMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(detail) = self.detail.as_ref().filter(|_| !self.is_about_a_row()) {
            write!(f, " ({detail})")?;
        }
        write!(f, " [SQLSTATE {}]", self.code)
    }
}

impl From<&tokio_postgres::error::DbError> for ServerMessage {
    fn from(error: &tokio_postgres::error::DbError) -> Self {
        Self {
            severity: error.severity().to_owned(),
            code: error.code().code().to_owned(),
            message: error.message().to_owned(),
            detail: error.detail().map(str::to_owned),
            hint: error.hint().map(str::to_owned),
            routine: error.routine().map(str::to_owned),
        }
    }
}

/// The situations that the router tells apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerErrorKind {
    /// Wrong password, unknown role, or no matching line in `pg_hba.conf`.
    Authentication,
    /// The database does not exist.
    DatabaseMissing,
    /// The role may not start a walsender.
    NoReplicationPrivilege,
    /// Some other privilege is missing.
    PermissionDenied,
    /// `wal_level` is below `logical`.
    WalLevel,
    /// There is no slot of that name.
    SlotMissing,
    /// Another walsender holds the slot.
    SlotInUse {
        /// The process that holds it, if the message names one.
        pid: Option<u32>,
    },
    /// The slot was invalidated, or the WAL it needs is gone.
    SlotLost,
    /// The slot is physical, of another database or of another plugin.
    SlotUnsuitable,
    /// The publication does not exist in the catalog as it was when the row was written.
    PublicationMissing,
    /// No connection, walsender or slot is free.
    TooManyConnections,
    /// The server is starting, stopping or recovering (57P03; only the translated text says which),
    /// or it stops while it waits for a standby.
    NotAccepting,
    /// The server is stopping, or somebody terminated this session (57P01, 57P02).
    Terminated,
    /// Something between this router and the server does not know the replication protocol, or
    /// gives a session to others between two statements.
    Pooler,
    /// Anything else; the SQLSTATE says what.
    Other,
}

/// The SQLSTATE of a privilege that is missing.
const PRIVILEGE: &str = "42501";

fn classify(message: &ServerMessage) -> ServerErrorKind {
    match message.code.as_str() {
        "28P01" | "28000" => ServerErrorKind::Authentication,
        "3D000" => ServerErrorKind::DatabaseMissing,
        PRIVILEGE => privilege(message),
        "42704" => missing_object(message),
        "55006" => slot_in_use(message),
        // A server that stops while it waits for a standby ends the stream with what is a warning
        // otherwise.
        "55000" | "22023" if is_of_standby(message.routine.as_deref(), &message.message) => {
            ServerErrorKind::NotAccepting
        }
        "55000" => not_in_prerequisite_state(message),
        "53300" | "53400" => ServerErrorKind::TooManyConnections,
        "57P01" | "57P02" => ServerErrorKind::Terminated,
        "57P03" => ServerErrorKind::NotAccepting,
        "58P01" if message.contains("WAL segment") => ServerErrorKind::SlotLost,
        "0A000" if message.contains("physical replication slot") => ServerErrorKind::SlotUnsuitable,
        // The slot has another output plugin, which does not know pgoutput's options; the texts
        // differ by plugin.
        "22023" if message.contains("proto_version") => ServerErrorKind::SlotUnsuitable,
        // PgBouncer's text, and that of Amazon's RDS Proxy.
        "08P01" if message.contains("startup parameter") => ServerErrorKind::Pooler,
        "0A000" if message.contains("command-line options") => ServerErrorKind::Pooler,
        // A prepared statement of this session is gone, or is there already: another client's.
        "26000" | "42P05" => ServerErrorKind::Pooler,
        _ => ServerErrorKind::Other,
    }
}

fn privilege(message: &ServerMessage) -> ServerErrorKind {
    // "permission denied for view pg_replication_slots" is about the view.
    if message.raised_by(&["aclcheck_error"]) || message.grant_on_catalog().is_some() {
        return ServerErrorKind::PermissionDenied;
    }
    // "must be superuser or replication role" up to version 15, "permission denied to start WAL
    // sender" since.
    if message.raised_by(&["InitPostgres", "CheckSlotPermissions", "check_permissions"])
        || message.contains("replication")
        || message.contains("WAL sender")
    {
        ServerErrorKind::NoReplicationPrivilege
    } else {
        ServerErrorKind::PermissionDenied
    }
}

fn missing_object(message: &ServerMessage) -> ServerErrorKind {
    if message.raised_by(&["get_publication_oid"]) || message.contains("publication \"") {
        ServerErrorKind::PublicationMissing
    } else if message.raised_by(&["ReplicationSlotAcquire"])
        || message.contains("replication slot \"")
    {
        ServerErrorKind::SlotMissing
    } else {
        ServerErrorKind::Other
    }
}

fn slot_in_use(message: &ServerMessage) -> ServerErrorKind {
    if message.raised_by(&["ReplicationSlotAcquire"]) || message.contains("replication slot") {
        ServerErrorKind::SlotInUse { pid: last_number(&message.message) }
    } else {
        ServerErrorKind::Other
    }
}

fn not_in_prerequisite_state(message: &ServerMessage) -> ServerErrorKind {
    if message.contains("wal_level") {
        ServerErrorKind::WalLevel
    } else if message.raised_by(&["RaiseSlotInvalidationError"])
        // Up to version 15 this text is also used for a physical slot that never reserved WAL; the
        // slot's type, not the text, distinguishes the two.
        || message.contains("invalidated")
        || message.contains("can no longer")
        || message.contains("cannot read from logical replication slot")
    {
        ServerErrorKind::SlotLost
    } else if message.raised_by(&["CreateDecodingContext"]) || message.contains("this database") {
        ServerErrorKind::SlotUnsuitable
    } else {
        ServerErrorKind::Other
    }
}

/// The last number of the text. The process id stands last in the sentence, after a slot name that
/// may contain digits itself.
fn last_number(text: &str) -> Option<u32> {
    let upto = text.rfind(|character: char| character.is_ascii_digit())? + 1;
    let text = text.get(..upto)?;
    let from = text.rfind(|character: char| !character.is_ascii_digit()).map(|at| {
        at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
    });
    text.get(from.unwrap_or(0)..)?.parse().ok()
}

/// The server violates the protocol; the connection is of no further use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// The announced length of a frame is impossible.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message that is not expected in this state.
    #[error("unexpected message {tag:?} while {doing}")]
    Unexpected {
        /// The message's tag.
        tag: char,
        /// What this router was doing.
        doing: &'static str,
    },
    /// A message whose body does not fit its tag.
    #[error("malformed message {tag:?} while {doing}")]
    Malformed {
        /// The message's tag.
        tag: char,
        /// What this router was doing.
        doing: &'static str,
    },
    /// More messages than any server sends before its session is ready.
    #[error("more than {limit} messages and no session that is ready")]
    TooManyMessages {
        /// The largest number that is accepted.
        limit: usize,
    },
    /// A larger answer than any server gives.
    #[error("the answer to a command has more than {limit} bytes")]
    AnswerTooLarge {
        /// The largest size that is accepted.
        limit: usize,
    },
}

/// A replication command that failed. The connection is to be dropped, except after
/// [`CommandError::Server`].
#[derive(Debug, Error)]
pub enum CommandError {
    /// The server answered with an error.
    #[error("{command} was refused: {message}")]
    Server {
        /// The command's name, without its arguments.
        command: &'static str,
        /// The server's ErrorResponse.
        message: Box<ServerMessage>,
    },
    /// The server violated the protocol.
    #[error("{command} failed")]
    Protocol {
        /// The command's name, without its arguments.
        command: &'static str,
        /// Which rule was violated.
        #[source]
        source: ProtocolError,
    },
    /// The connection broke.
    #[error("{command} failed: the connection broke")]
    Io {
        /// The command's name, without its arguments.
        command: &'static str,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
}

impl CommandError {
    /// What the server's error means; `None` when the connection failed instead.
    #[must_use]
    pub fn kind(&self) -> Option<ServerErrorKind> {
        match self {
            Self::Server { message, .. } => Some(message.kind()),
            Self::Protocol { .. } | Self::Io { .. } => None,
        }
    }
}
