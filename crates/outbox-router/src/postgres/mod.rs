//! PostgreSQL as seen from the wire: where to connect, how to be sure who answers, and the
//! replication stream.
//!
//! No published client speaks the replication protocol, so the connection is ours: small, on the
//! message builders and SCRAM of `postgres-protocol`, with its own framing because a frame's
//! announced length must be judged before anything is reserved for it. Ordinary SQL goes through
//! `tokio-postgres`, in a session that was opened here.
//!
//! Both connections start in the same place (`startup`), so that what one refuses the other
//! refuses too.
//!
//! Read in this order: [`conninfo`] (text → [`ConnInfo`]), `transport` and [`tls`] (a byte stream
//! to the right server), `auth` and `startup` (a session on it), [`replication`] (commands),
//! [`stream`] (the walsender's frames and our status updates), [`errors`] (what can go wrong,
//! classified once).

mod auth;
pub mod conninfo;
pub mod errors;
mod failure;
pub mod frames;
mod link;
mod options;
pub mod quote;
pub mod replication;
mod reply;
pub mod require_auth;
mod session;
pub mod sql;
mod startup;
pub mod stream;
pub mod text;
pub mod tls;
pub mod transport;

pub use conninfo::{ConnInfo, ConnInfoError, Host, Password, SslMode};
pub use errors::{
    CommandError, ConnectError, ConnectErrorKind, ProtocolError, ServerMessage, ServerTrouble,
    TlsSetupError, Unfit,
};
pub use failure::{
    command_failure, connect_failure, protocol_failure, sql_failure, stream_failure,
};
pub use link::Fill;
pub use options::{ClientEncoding, Options};
pub use quote::{quote_identifier, quote_literal, quote_table};
pub use replication::{IdentifySystem, ReplicationConnection};
pub use require_auth::{Method, RequireAuth};
pub use sql::{SqlConnection, connect_sql};
pub use stream::{Incoming, Output, ReplicationStream, STATUS_UPDATE_BYTES};
pub use text::{TextQuery, TextRow, one_row};
pub use tls::try_tls;
