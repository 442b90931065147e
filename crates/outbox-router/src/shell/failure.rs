//! What the socket says in the core's words, and what the core says in the wire's.

use std::io;

use relay::{Code, Failure, ServerNotice, StatusUpdate};

use crate::postgres::{STATUS_UPDATE_BYTES, ServerMessage};

/// The connection broke.
pub(super) fn broken(error: &io::Error) -> Failure {
    Failure::new(Code::ServerUnreachable, format!("the replication connection broke: {error}"))
}

/// The server closed the connection without a word.
pub(super) fn closed() -> Failure {
    Failure::new(Code::ServerUnreachable, "PostgreSQL closed the replication connection")
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
