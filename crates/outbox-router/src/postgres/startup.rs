//! From an open transport to a session that is ready for commands. The replication connection and
//! the SQL connection both start here, so that neither accepts a server that the other refuses.
//!
//! A session that streams sets every parameter that could change the bytes of a row: `ALTER ROLE …
//! SET bytea_output = 'escape'` must not alter what reaches Kafka. So they are sent in the start-up
//! message, where they override the settings of role and database.

use postgres_protocol::message::frontend;

use super::auth::{authenticate, failed};
use super::link::Link;
use super::options::Options;
use super::reply::Reply;
use super::session::{MESSAGES_MAX, ServerParameters};
use super::{ConnInfo, ConnectError, ProtocolError};

const DOING: &str = "starting the session";

/// Sends the start-up message, authenticates, and waits until the server is ready.
///
/// # Errors
/// Authentication fails, the server refuses the session or violates the protocol, or the connection
/// breaks; see [`ConnectError`].
pub(super) async fn start(
    link: &mut Link,
    info: &ConnInfo,
    parameters: &[(&str, &str)],
) -> Result<ServerParameters, ConnectError> {
    let closed = |source| ConnectError::Closed { target: info.target(), source: Some(source) };
    frontend::startup_message(parameters.iter().copied(), &mut link.out).map_err(closed)?;
    link.flush().await.map_err(|error| failed(info, error))?;
    let privacy = link.transport().privacy();
    authenticate(link, info, privacy).await?;
    let mut session = ServerParameters::default();
    for _ in 0..MESSAGES_MAX {
        let unexpected = match link.reply(DOING).await.map_err(|error| failed(info, error))? {
            Reply::Ready => return Ok(session),
            Reply::Parameter { name, value } => {
                session.note_parameter(name, value);
                continue;
            }
            Reply::BackendKey(key) => {
                session.backend_key = Some(key);
                continue;
            }
            Reply::Notice(notice) => {
                session.note_notice(*notice);
                continue;
            }
            Reply::Error(message) => {
                return Err(ConnectError::Server { target: info.target(), message });
            }
            reply @ (Reply::Authentication(_)
            | Reply::Columns
            | Reply::Row(_)
            | Reply::Complete
            | Reply::CopyBoth
            | Reply::Nothing) => reply.tag(),
        };
        let source = ProtocolError::Unexpected { tag: unexpected, doing: DOING };
        return Err(ConnectError::Protocol { target: info.target(), source });
    }
    let source = ProtocolError::TooManyMessages { limit: MESSAGES_MAX };
    Err(ConnectError::Protocol { target: info.target(), source })
}

/// Who answers, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Unknown,
    /// A pooler that refuses `options`, as PgBouncer does unless it is told to ignore them.
    Pooler,
}

/// The parameters of a session for ordinary SQL.
///
/// `search_path` is `pg_catalog`, so that no function in another schema can take the place of a
/// system function. It is set in `options` because connection poolers know that parameter and
/// refuse `search_path`. Behind one that refuses `options`, too, each transaction sets it. Queries
/// of the catalog take milliseconds, and compiling one of them takes seconds (5.2 s of 5.3 on 15),
/// so `jit` is off.
pub(super) fn for_sql<'a>(
    info: &'a ConnInfo,
    application_name: &'a str,
    peer: Peer,
) -> Vec<(&'static str, &'a str)> {
    let mut parameters = vec![
        ("user", info.user.as_str()),
        ("database", &info.dbname),
        ("application_name", application_name),
        ("client_encoding", "UTF8"),
        ("standard_conforming_strings", "on"),
    ];
    match peer {
        Peer::Unknown => parameters.push(("options", "-c search_path=pg_catalog -c jit=off")),
        Peer::Pooler => {}
    }
    parameters
}

/// The parameters that decide which texts the values of a row have, as a session that streams sets
/// them.
pub const VALUE_FORMS: [(&str, &str); 5] = [
    ("DateStyle", "ISO"),
    ("IntervalStyle", "postgres"),
    ("extra_float_digits", "3"),
    ("bytea_output", "hex"),
    ("TimeZone", "UTC"),
];

/// The parameters of a session that streams.
pub(super) fn for_replication<'a>(
    info: &'a ConnInfo,
    options: &'a Options,
    wal_sender_timeout: &'a str,
) -> [(&'static str, &'a str); 14] {
    let [date_style, interval_style, float_digits, bytea_output, time_zone] = VALUE_FORMS;
    [
        ("user", &info.user),
        ("database", &info.dbname),
        ("replication", "database"),
        ("application_name", &options.application_name),
        ("client_encoding", options.client_encoding.name()),
        date_style,
        interval_style,
        float_digits,
        bytea_output,
        time_zone,
        // Statements contain values as literals, in which a backslash must be an ordinary
        // character.
        ("standard_conforming_strings", "on"),
        // PostgreSQL 18 reports a missing publication only by a WARNING.
        ("client_min_messages", "warning"),
        // No statement of the router takes long, and a limit that was set for people's sessions
        // must not end the stream.
        ("statement_timeout", "0"),
        ("wal_sender_timeout", wal_sender_timeout),
    ]
}
