//! What PostgreSQL and the socket say, in the core's words.

use std::{error::Error, io};

use relay::{Code, Failure, ServerNotice, StatusUpdate};

use crate::postgres::{
    CommandError, ConnectError, ConnectErrorKind, ProtocolError, STATUS_UPDATE_BYTES,
    ServerMessage, ServerTrouble,
};

/// Why no connection could be made.
pub fn connect_failure(error: &ConnectError) -> Failure {
    let code = match error.kind() {
        ConnectErrorKind::Server(trouble) => return from_trouble(&trouble, chain(error)),
        ConnectErrorKind::Transport => Code::ServerUnreachable,
        ConnectErrorKind::Tls | ConnectErrorKind::Authentication => Code::AuthenticationFailed,
        ConnectErrorKind::Protocol => Code::Protocol,
    };
    let failure = Failure::new(code, chain(error));
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Why a replication command failed.
pub(super) fn command(error: &CommandError) -> Failure {
    match (error.trouble(), error) {
        (Some(trouble), _) => from_trouble(&trouble, chain(error)),
        (None, CommandError::Protocol { .. }) => Failure::new(Code::Protocol, chain(error)),
        (None, CommandError::Io { .. } | CommandError::Server { .. }) => {
            Failure::new(Code::ServerUnreachable, chain(error))
        }
    }
}

/// The server ended the stream with an error.
pub(super) fn ended(message: &ServerMessage) -> Failure {
    from_trouble(&message.trouble(), format!("PostgreSQL ended the stream: {message}"))
}

/// The connection broke.
pub(super) fn broken(error: &io::Error) -> Failure {
    Failure::new(Code::ServerUnreachable, format!("the replication connection broke: {error}"))
}

/// The server closed the connection without a word.
pub(super) fn closed() -> Failure {
    Failure::new(Code::ServerUnreachable, "PostgreSQL closed the replication connection")
}

/// The server does not speak the protocol.
pub(super) fn protocol(error: &ProtocolError) -> Failure {
    Failure::new(Code::Protocol, chain(error))
}

/// A notice within the stream is data.
pub(super) fn notice(message: ServerMessage) -> ServerNotice {
    tracing::warn!(
        severity = message.severity,
        code = message.code,
        "PostgreSQL says: {}",
        message.message
    );
    ServerNotice { code: message.code, message: message.message }
}

/// The update as the wire has it. Flush and apply are one number, and only the ledger makes it.
pub(super) fn encode(update: StatusUpdate) -> [u8; STATUS_UPDATE_BYTES] {
    let flush = update.flush.lsn();
    pgoutput::StandbyStatusUpdate {
        write: update.write,
        flush,
        apply: flush,
        clock: update.clock,
        reply: update.reply,
    }
    .encode()
}

fn from_trouble(trouble: &ServerTrouble, message: String) -> Failure {
    let code = match trouble {
        ServerTrouble::Authentication
        | ServerTrouble::DatabaseMissing
        | ServerTrouble::PermissionDenied
        | ServerTrouble::Pooler => Code::AuthenticationFailed,
        ServerTrouble::NoReplicationPrivilege => Code::RoleLacksReplication,
        ServerTrouble::WalLevel => Code::WalLevel,
        ServerTrouble::SlotMissing => Code::SlotMissing,
        ServerTrouble::SlotInUse { .. } => Code::SlotInUse,
        ServerTrouble::SlotLost => Code::SlotLost,
        ServerTrouble::SlotUnfit => Code::SlotUnsuitable,
        ServerTrouble::PublicationMissing => Code::PublicationMissing,
        ServerTrouble::TooManyConnections => Code::ServerFull,
        ServerTrouble::NotAccepting => Code::ServerNotReady,
        ServerTrouble::Terminated => Code::ServerUnreachable,
        ServerTrouble::Other => Code::ServerError,
    };
    let failure = Failure::new(code, message);
    match trouble.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// An error with everything that caused it, for a message that is printed once.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
