//! The options of a replication connection, set before it is opened.

use std::time::Duration;

use super::transport::SocketOptions;

/// `wal_sender_timeout` of this router's sessions: the server ends a connection that is silent for
/// so long. A status update is sent every third of it.
pub const WAL_SENDER_TIMEOUT: Duration = Duration::from_secs(10);

/// How a replication connection behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Shown in `pg_stat_replication`.
    pub application_name: String,
    /// The encoding in which rows arrive.
    pub client_encoding: ClientEncoding,
    /// After how much silence of this router the server frees the slot. Short, so that a frozen
    /// holder does not keep a standby waiting; status updates are far more frequent.
    pub wal_sender_timeout: Duration,
    /// The read buffer's usual size in bytes; also the most that one pass reads.
    pub read_buffer: usize,
    /// The largest row, in bytes, that is handed out whole.
    pub row_bytes: usize,
    /// Options of the TCP socket.
    pub socket: SocketOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            application_name: "outbox-router".to_owned(),
            client_encoding: ClientEncoding::Utf8,
            wal_sender_timeout: WAL_SENDER_TIMEOUT,
            read_buffer: 1024 * 1024,
            row_bytes: 16 * 1024 * 1024,
            socket: SocketOptions::default(),
        }
    }
}

/// The encoding to which the server converts text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEncoding {
    /// For every database except those of [`ClientEncoding::SqlAscii`].
    Utf8,
    /// For a database whose `server_encoding` is SQL_ASCII. It holds bytes of no known encoding: a
    /// conversion to UTF8 would fail at the first row that is not UTF-8, at every attempt.
    SqlAscii,
}

impl ClientEncoding {
    /// The encoding to ask for, given the database's `server_encoding`.
    #[must_use]
    pub fn for_server_encoding(server_encoding: &str) -> Self {
        if server_encoding == "SQL_ASCII" { Self::SqlAscii } else { Self::Utf8 }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF8",
            Self::SqlAscii => "SQL_ASCII",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sql_ascii_is_requested_as_it_is() {
        for (server, asked) in [("UTF8", "UTF8"), ("LATIN1", "UTF8"), ("SQL_ASCII", "SQL_ASCII")] {
            assert_eq!(ClientEncoding::for_server_encoding(server).name(), asked);
        }
    }
}
