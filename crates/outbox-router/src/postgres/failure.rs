//! Errors of PostgreSQL connections as the core's [`Failure`]s: the one place where they get their
//! code, whichever connection met them.

use std::{error::Error, io};

use relay::{Code, Failure};

use super::{
    CommandError, ConnectError, ConnectErrorKind, ProtocolError, ServerMessage, ServerTrouble,
};
use crate::wording::chain;

/// The failure of a connection that could not be established.
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

/// The failure of a replication command.
pub fn command_failure(error: &CommandError) -> Failure {
    match (error.trouble(), error) {
        (Some(trouble), _) => from_trouble(&trouble, chain(error)),
        (None, CommandError::Protocol { .. }) => Failure::new(Code::Protocol, chain(error)),
        (None, CommandError::Io { .. } | CommandError::Server { .. }) => {
            Failure::new(Code::ServerUnreachable, chain(error))
        }
    }
}

/// The failure of a stream that the server ended with an error.
pub fn stream_failure(message: &ServerMessage) -> Failure {
    from_trouble(&message.trouble(), format!("PostgreSQL ended the stream: {message}"))
}

/// The failure of an SQL query, or of its connection.
pub fn sql_failure(error: &tokio_postgres::Error) -> Failure {
    if let Some(server) = error.as_db_error() {
        let message = ServerMessage::from(server);
        return from_trouble(&message.trouble(), format!("PostgreSQL said {message}"));
    }
    let is_broken =
        error.is_closed() || error.source().is_some_and(|cause| cause.is::<io::Error>());
    let code = if is_broken { Code::ServerUnreachable } else { Code::ServerError };
    Failure::new(code, chain(error))
}

/// The failure of a server that violates the protocol.
pub fn protocol_failure(error: &ProtocolError) -> Failure {
    Failure::new(Code::Protocol, chain(error))
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
