//! From a fresh transport to a session that is ready for replication commands, with every parameter pinned that could
//! change the bytes of a row.
//!
//! `ALTER ROLE … SET bytea_output = 'escape'` must not alter what reaches Kafka, so the parameters travel in the start-up
//! message, where they override the settings of role and database.

use std::collections::BTreeMap;

use postgres_protocol::message::frontend;

use super::auth::{authenticate, failed};
use super::link::Link;
use super::replication::Options;
use super::reply::Reply;
use super::{ConnInfo, ConnectError, ProtocolError, ServerMessage};

const DOING: &str = "starting the session";
/// A server reports some fifteen parameters and rarely a notice; the limits stop one that would not end.
const PARAMETERS_MAX: usize = 128;
pub(super) const NOTICES_MAX: usize = 16;

/// What the server told about itself.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) pid: Option<u32>,
    pub(super) parameters: BTreeMap<String, String>,
    /// Notices that came before streaming.
    pub(super) notices: Vec<ServerMessage>,
}

impl Session {
    pub(super) fn note_parameter(&mut self, name: String, value: String) {
        if self.parameters.len() < PARAMETERS_MAX || self.parameters.contains_key(&name) {
            self.parameters.insert(name, value);
        }
    }

    pub(super) fn note_notice(&mut self, notice: ServerMessage) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push(notice);
        }
    }
}

/// Sends the start-up message, authenticates, and waits until the server is ready.
pub(super) async fn start(
    link: &mut Link,
    info: &ConnInfo,
    options: &Options,
) -> Result<Session, ConnectError> {
    let closed = |source| ConnectError::Closed { target: info.target(), source: Some(source) };
    let timeout = format!("{}ms", options.wal_sender_timeout.as_millis());
    frontend::startup_message(parameters(info, options, &timeout), &mut link.out)
        .map_err(closed)?;
    link.flush().await.map_err(|error| failed(info, error))?;
    let privacy = link.transport().privacy();
    authenticate(link, info, privacy).await?;
    let mut session = Session::default();
    loop {
        let unexpected = match link.reply(DOING).await.map_err(|error| failed(info, error))? {
            Reply::Ready => return Ok(session),
            Reply::Parameter { name, value } => {
                session.note_parameter(name, value);
                continue;
            }
            Reply::BackendKey { pid } => {
                session.pid = Some(pid);
                continue;
            }
            Reply::Notice(notice) => {
                session.note_notice(*notice);
                continue;
            }
            Reply::Error(message) => {
                return Err(ConnectError::Server { target: info.target(), message });
            }
            Reply::Authentication(_) => 'R',
            Reply::Columns => 'T',
            Reply::Row(_) => 'D',
            Reply::Complete => 'C',
            Reply::CopyBoth => 'W',
            Reply::Nothing => 'A',
        };
        let source = ProtocolError::Unexpected { tag: unexpected, doing: DOING };
        return Err(ConnectError::Protocol { target: info.target(), source });
    }
}

fn parameters<'a>(
    info: &'a ConnInfo,
    options: &'a Options,
    wal_sender_timeout: &'a str,
) -> [(&'static str, &'a str); 14] {
    [
        ("user", &info.user),
        ("database", &info.dbname),
        ("replication", "database"),
        ("application_name", &options.application_name),
        ("client_encoding", options.client_encoding.name()),
        ("DateStyle", "ISO"),
        ("IntervalStyle", "postgres"),
        ("extra_float_digits", "3"),
        ("bytea_output", "hex"),
        ("TimeZone", "UTC"),
        // Our statements hold values as literals.
        ("standard_conforming_strings", "on"),
        // PostgreSQL 18 tells of a missing publication by a WARNING only.
        ("client_min_messages", "warning"),
        // No query of ours is long, and a limit set for people's sessions must not end the stream.
        ("statement_timeout", "0"),
        ("wal_sender_timeout", wal_sender_timeout),
    ]
}
