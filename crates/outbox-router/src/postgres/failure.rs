//! Errors of PostgreSQL connections as the core's [`Failure`]s: the one place where they get their
//! code, whichever connection met them.

use std::{error::Error, io};

use relay::{Case, Code, Failure, Name};
use tokio_postgres::error::SqlState;

use super::{
    CommandError, ConnectError, ConnectErrorKind, ProtocolError, ServerErrorKind, ServerMessage,
};

/// The failure of a connection that could not be established.
pub fn connect_failure(error: ConnectError) -> Failure {
    let (code, case) = match error.kind() {
        ConnectErrorKind::Server(kind) => code_of(&kind),
        ConnectErrorKind::Transport => (Code::ServerUnreachable, None),
        ConnectErrorKind::Tls | ConnectErrorKind::Authentication => {
            (Code::AuthenticationFailed, case_of(&error))
        }
        ConnectErrorKind::Protocol => of(Case::NotPostgres),
    };
    let hint =
        if let ConnectError::Server { message, .. } = &error { message.hint.clone() } else { None };
    with_hint(Failure::from_error(code, error).with_case(case), hint.as_deref())
}

/// Which setting of TLS or authentication has to change.
fn case_of(error: &ConnectError) -> Option<Case> {
    match error {
        ConnectError::TlsRefused { .. } => Some(Case::TlsRefused),
        ConnectError::TlsHandshake { .. } => Some(Case::TlsHandshake),
        ConnectError::TlsAnswer { .. } => Some(Case::TlsAnswer),
        ConnectError::TlsSetup { .. } => Some(Case::TlsFiles),
        ConnectError::TlsStripped { .. } => Some(Case::TlsStripped),
        ConnectError::PlaintextPassword { .. } => Some(Case::PlaintextPassword),
        ConnectError::MethodRuledOut { .. } => Some(Case::MethodRuledOut),
        ConnectError::AuthenticationMethod { .. } => Some(Case::MethodUnsupported),
        ConnectError::ScramIterations { .. } => Some(Case::ScramIterations),
        ConnectError::PasswordMissing { .. } => Some(Case::PasswordMissing),
        ConnectError::ServerProof { .. } => Some(Case::ServerProof),
        ConnectError::Resolve { .. }
        | ConnectError::Unreachable { .. }
        | ConnectError::Timeout { .. }
        | ConnectError::Closed { .. }
        | ConnectError::Server { .. }
        | ConnectError::Protocol { .. }
        | ConnectError::Client { .. } => None,
    }
}

/// The failure of a replication command.
pub fn command_failure(error: CommandError) -> Failure {
    let (code, case) = match (error.kind(), &error) {
        (Some(kind), _) => code_of(&kind),
        (None, CommandError::Protocol { .. }) => (Code::Protocol, None),
        (None, CommandError::Io { .. } | CommandError::Server { .. }) => {
            (Code::ServerUnreachable, None)
        }
    };
    let (grant, hint) = match &error {
        CommandError::Server { message, .. } => (message.grant_on_catalog(), message.hint.clone()),
        CommandError::Protocol { .. } | CommandError::Io { .. } => (None, None),
    };
    let failure = Failure::from_error(code, error).with_case(case);
    on_catalog(with_hint(failure, hint.as_deref()), grant)
}

/// The failure, with the hint that the server gave.
fn with_hint(failure: Failure, hint: Option<&str>) -> Failure {
    let Some(hint) = hint else { return failure };
    let is_other = failure.code == Code::ServerError && failure.case.is_none();
    let failure = if is_other { failure.with_case(Case::ServerHint) } else { failure };
    failure.naming(Name::ServerHint, hint)
}

/// The failure, with what would grant the use of the system catalog.
fn on_catalog(failure: Failure, grant: Option<String>) -> Failure {
    match grant {
        Some(grant) => failure.with_case(Case::CatalogDenied).naming(Name::Statements, grant),
        None => failure,
    }
}

/// The failure of a stream that the server ended with an error.
pub fn stream_failure(message: &ServerMessage) -> Failure {
    of_server(message, format!("PostgreSQL ended the stream: {message}"))
}

/// The failure of an SQL query, or of its connection.
pub fn sql_failure(error: tokio_postgres::Error) -> Failure {
    if let Some(server) = error.as_db_error() {
        let message = ServerMessage::from(server);
        return of_server(&message, format!("PostgreSQL said {message}"));
    }
    let is_broken =
        error.is_closed() || error.source().is_some_and(|cause| cause.is::<io::Error>());
    let code = if is_broken { Code::ServerUnreachable } else { Code::ServerError };
    Failure::from_error(code, error)
}

/// The failure of a server that violates the protocol.
pub fn protocol_failure(error: ProtocolError) -> Failure {
    Failure::from_error(Code::Protocol, error)
}

/// The failure that an ErrorResponse reports.
fn of_server(server: &ServerMessage, message: String) -> Failure {
    let kind = server.kind();
    let (code, case) = code_of(&kind);
    let failure = Failure::new(code, message).with_case(case);
    let failure = with_hint(failure, server.hint.as_deref());
    if let ServerErrorKind::SlotInUse { pid: Some(pid) } = kind {
        return failure.with_case(Case::SlotNeeded).naming(Name::Pid, pid);
    }
    on_catalog(failure, server.grant_on_catalog())
}

fn code_of(kind: &ServerErrorKind) -> (Code, Option<Case>) {
    let code = match kind {
        ServerErrorKind::DatabaseMissing => return of(Case::DatabaseMissing),
        ServerErrorKind::PermissionDenied => return of(Case::PermissionDenied),
        ServerErrorKind::Pooler => return of(Case::Pooler),
        ServerErrorKind::Authentication => Code::AuthenticationFailed,
        ServerErrorKind::NoReplicationPrivilege => Code::RoleLacksReplication,
        ServerErrorKind::WalLevel => Code::WalLevel,
        ServerErrorKind::SlotMissing => Code::SlotMissing,
        ServerErrorKind::SlotInUse { .. } => Code::SlotInUse,
        ServerErrorKind::SlotLost => Code::SlotLost,
        ServerErrorKind::SlotUnsuitable => Code::SlotUnsuitable,
        ServerErrorKind::PublicationMissing => Code::PublicationMissing,
        ServerErrorKind::TooManyConnections => Code::ServerFull,
        ServerErrorKind::NotAccepting => Code::ServerNotReady,
        ServerErrorKind::Terminated => Code::ServerUnreachable,
        ServerErrorKind::Other => Code::ServerError,
    };
    (code, None)
}

const fn of(case: Case) -> (Code, Option<Case>) {
    (case.code(), Some(case))
}

/// Whether a value is none of its type: SQLSTATE's class 22.
pub fn is_data_exception(state: &SqlState) -> bool {
    state.code().starts_with("22")
}
