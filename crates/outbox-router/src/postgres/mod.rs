//! The connections to PostgreSQL: where to connect, how to verify the server, the replication
//! stream, and ordinary SQL.
//!
//! No published client speaks the replication protocol, so this module implements that connection,
//! on the message builders and SCRAM of `postgres-protocol`. The framing is its own, because the
//! length that a frame announces must be checked before memory is reserved for it. Ordinary SQL
//! goes through `tokio-postgres`, in a session that was opened here.
//!
//! Both connections start in `startup`, so that both refuse the same servers.
//!
//! Read in this order: [`conninfo`] (text → [`ConnInfo`]), `transport` and [`tls`] (a byte stream
//! to the right server), `auth` and `startup` (a session on it), [`replication`] (commands),
//! [`stream`] (the walsender's frames and our status updates), `backlog` (the same by SQL),
//! [`errors`] (what can go wrong, classified once).

mod auth;
mod backlog;
pub mod conninfo;
pub mod errors;
mod failure;
mod foreign_code;
pub mod frames;
mod link;
mod object_name;
mod options;
pub mod quote;
pub mod replication;
mod reply;
pub mod require_auth;
mod row_content;
mod row_security;
mod session;
pub mod sql;
mod startup;
pub mod stream;
mod table_size;
mod tcp_info;
pub mod text;
pub mod tls;
pub mod transport;
mod utc;

pub use backlog::{Backlog, BatchLimits, CopiedSlot, SlotCopyOwner};
pub use conninfo::{ConnInfo, ConnInfoError, Host, Password, SslMode};
pub use errors::{
    CommandError, ConnectError, ConnectErrorKind, ProtocolError, ServerErrorKind, ServerMessage,
    TlsSetupError, UnsuitableConnection,
};
pub use failure::{
    command_failure, connect_failure, is_data_exception, protocol_failure, sql_failure,
    stream_failure,
};
pub use foreign_code::{
    HARMLESS, Lasting, Runs, Strangers, Touched, locks_against_code, look_for_foreign_code,
    refuse_foreign_code, refuse_views,
};
pub use link::Fill;
pub(crate) use object_name::object_name;
pub use options::{ClientEncoding, Options, WAL_SENDER_TIMEOUT};
pub use quote::{quote_identifier, quote_literal, quote_table};
pub use replication::{CreatedSlot, Failover, IdentifySystem, ReplicationConnection, Row};
pub use require_auth::{Method, RequireAuth};
pub(crate) use row_content::{content, content_sql};
pub use row_security::{HiddenRows, hidden_rows};
pub(crate) use sql::NEVER_NULL;
pub use sql::{Session, SqlConnection, connect_sql, connect_sql_announced, connect_sql_for};
pub use startup::VALUE_FORMS;
pub use stream::{Incoming, Output, ReplicationStream, STATUS_UPDATE_BYTES};
pub(crate) use table_size::table_size_sql;
pub use text::{TextQuery, TextRow, one_row};
pub use tls::try_tls;
pub use transport::SocketOptions;
pub(crate) use utc::utc;
