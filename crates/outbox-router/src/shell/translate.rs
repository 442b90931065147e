//! Translates the connection's errors and notices into the core's types, and the core's status
//! update into bytes.

use std::io;

use crate::postgres::{STATUS_UPDATE_BYTES, ServerMessage};
use relay::{Code, Failure, ServerNotice, StatusUpdate};

/// Reading or writing failed.
pub(super) fn broken(error: io::Error) -> Failure {
    Failure::new(Code::ServerUnreachable, "the replication connection broke").caused_by(error)
}

/// The server closed the connection without an error message.
pub(super) fn closed() -> Failure {
    Failure::new(Code::ServerUnreachable, "PostgreSQL closed the replication connection")
}

/// Logs a NoticeResponse of the stream and translates it for the core. A walsender that waits for
/// a standby repeats its warning several times a second; the log counts what comes again.
pub(super) fn logged_notice(message: ServerMessage) -> ServerNotice {
    tracing::warn!(
        severity = message.severity,
        code = message.code,
        "PostgreSQL says: {}",
        message.message
    );
    notice(message)
}

/// Translates a NoticeResponse for the core.
pub(super) fn notice(message: ServerMessage) -> ServerNotice {
    let ServerMessage { code, message, routine, .. } = message;
    ServerNotice { code, message, routine }
}

/// Encodes a status update. Flush and apply are the same position, which only the ledger makes.
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
