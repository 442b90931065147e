//! Ordinary SQL sessions: opened here, used through `tokio-postgres`.
//!
//! The monitor must refuse every server that the replication connection refuses. So this session
//! starts in `startup` too: with the same TLS, the same authentication, the same limits.
//! `tokio-postgres` cannot take over a session that is already open. It is given a transport that
//! discards its start-up message and answers it with what the server has already sent.
//! `tokio-postgres` never learns the password.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use super::frames::FrameLimits;

/// A statement: what the session commits has reached the disk, whatever the server does for others;
/// a stricter setting of the server stays.
pub(crate) const DURABLE: &str = "\
    select pg_catalog.set_config('synchronous_commit', 'local', false) \
      where pg_catalog.current_setting('synchronous_commit') = 'off'";

/// An expression: whether no row has NULL in the column that `pg_attribute` calls `a`. From
/// PostgreSQL 18 on `attnotnull` may stand for a constraint that older rows need not meet
/// (`NOT NULL NOT VALID`).
pub(crate) const NEVER_NULL: &str = "\
    a.attnotnull and not exists (select from pg_constraint n where n.conrelid = a.attrelid \
      and n.contype = 'n' and n.conkey = array[a.attnum] and not n.convalidated)";

/// Statements after which no limit of a role or a database ends a session that waits, or a long
/// transaction (`transaction_timeout` is of PostgreSQL 17, `idle_session_timeout` of 14).
pub(crate) const NO_TIMEOUTS: &str = "set idle_in_transaction_session_timeout = 0; \
     select pg_catalog.set_config(name, '0', false) from pg_catalog.pg_settings \
     where name in ('transaction_timeout', 'idle_session_timeout')";
use super::link::Link;
use super::session::ServerParameters;
use super::startup::{self, Peer};
use super::transport::{SocketOptions, Transport};
use super::{ConnInfo, ConnectError, ConnectErrorKind, ServerErrorKind};

/// The connection of an SQL session; the caller polls it for as long as the client is used.
pub type SqlConnection = tokio_postgres::Connection<SqlTransport, SqlTransport>;

/// The limits while the session starts: PostgreSQL sends less than this, and no row before the
/// session is ready.
const START_UP: FrameLimits = FrameLimits { read_buffer: 8 * 1024, row_bytes: 0 };

/// What a session is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// Settings and locks of it count for longer than a transaction, so it has to be one of the
    /// server. A pooler that refuses `options` is refused.
    Own,
    /// Nothing outlives a transaction, in which names of the system are looked up in `pg_catalog`:
    /// it may be a pooler's.
    Shared,
}

/// Opens an SQL session, all within `connect_timeout`.
///
/// `search_path` is `pg_catalog`, so statements have to qualify the names of tables.
///
/// # Errors
/// The reason why there is no session; see [`ConnectError`].
pub async fn connect_sql(
    info: &ConnInfo,
    application_name: &str,
) -> Result<(tokio_postgres::Client, SqlConnection), ConnectError> {
    connect_sql_for(Session::Own, info, application_name).await
}

/// As [`connect_sql`], for such use.
///
/// # Errors
/// As [`connect_sql`].
pub async fn connect_sql_for(
    session: Session,
    info: &ConnInfo,
    application_name: &str,
) -> Result<(tokio_postgres::Client, SqlConnection), ConnectError> {
    let (client, connection, _) = connect(session, info, application_name).await?;
    Ok((client, connection))
}

/// As [`connect_sql`], with the process id that was announced when the session began: that of the
/// backend, or one that a pooler has made up.
///
/// # Errors
/// As [`connect_sql`].
pub async fn connect_sql_announced(
    info: &ConnInfo,
    application_name: &str,
) -> Result<(tokio_postgres::Client, SqlConnection, Option<u32>), ConnectError> {
    connect(Session::Own, info, application_name).await
}

async fn connect(
    session: Session,
    info: &ConnInfo,
    application_name: &str,
) -> Result<(tokio_postgres::Client, SqlConnection, Option<u32>), ConnectError> {
    let connect = async {
        match open(info, application_name, Peer::Unknown).await {
            Err(error)
                if session == Session::Shared
                    && error.kind() == ConnectErrorKind::Server(ServerErrorKind::Pooler) =>
            {
                open(info, application_name, Peer::Pooler).await
            }
            outcome => outcome,
        }
    };
    let limit = info.connect_timeout;
    match tokio::time::timeout(limit, Box::pin(connect)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(ConnectError::Timeout { target: info.target(), after: limit }),
    }
}

async fn open(
    info: &ConnInfo,
    application_name: &str,
    peer: Peer,
) -> Result<(tokio_postgres::Client, SqlConnection, Option<u32>), ConnectError> {
    let transport = Transport::connect(info, &SocketOptions::default()).await?;
    let mut link = Link::new(transport, START_UP);
    let parameters = startup::for_sql(info, application_name, peer);
    let session = startup::start(&mut link, info, &parameters).await?;
    // The server already has what the start-up message of `tokio-postgres` would say.
    // `tokio-postgres` requires a user and, with this `ssl_mode`, TLS, which [`AlreadyConnected`]
    // stands for.
    let mut config = tokio_postgres::Config::new();
    let (client, connection) = config
        .user(&info.user)
        .ssl_mode(SslMode::Require)
        .ssl_negotiation(SslNegotiation::Direct)
        .connect_raw(SqlTransport::new(link, &session), AlreadyConnected)
        .await
        .map_err(|source| ConnectError::Client { target: info.target(), source })?;
    Ok((client, connection, session.pid()))
}

/// Stands for the TLS connector: the transport is already encrypted, where it is to be.
struct AlreadyConnected;

impl TlsConnect<SqlTransport> for AlreadyConnected {
    type Stream = SqlTransport;
    type Error = Infallible;
    type Future = Ready<Result<SqlTransport, Infallible>>;

    fn connect(self, stream: SqlTransport) -> Self::Future {
        ready(Ok(stream))
    }
}

/// The transport of an open session, for a client that behaves as if it opened the session.
#[derive(Debug)]
pub struct SqlTransport {
    inner: Transport,
    /// The server's messages of the start-up, composed again, and then the bytes that were received
    /// since.
    greeting: BytesMut,
    phase: StartupPhase,
}

/// Where the client is: it writes its start-up message, and nothing else, before its first read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartupPhase {
    /// What the client writes is discarded.
    StartUp,
    /// What the client writes is sent.
    Open,
}

impl SqlTransport {
    fn new(link: Link, session: &ServerParameters) -> Self {
        let (inner, received) = link.into_parts();
        let mut greeting = greeting(session);
        greeting.extend_from_slice(&received);
        Self { inner, greeting, phase: StartupPhase::StartUp }
    }
}

/// AuthenticationOk, the ParameterStatus messages, BackendKeyData, ReadyForQuery (manual, section
/// "Message Formats").
fn greeting(session: &ServerParameters) -> BytesMut {
    let mut out = BytesMut::new();
    message(&mut out, b'R', &[&0_i32.to_be_bytes()]);
    for (name, value) in &session.parameters {
        message(&mut out, b'S', &[name.as_bytes(), b"\0", value.as_bytes(), b"\0"]);
    }
    if let Some(key) = session.backend_key {
        message(&mut out, b'K', &[&key.pid.to_be_bytes(), &key.secret.to_be_bytes()]);
    }
    message(&mut out, b'Z', &[b"I"]);
    out
}

fn message(out: &mut BytesMut, tag: u8, parts: &[&[u8]]) {
    let length = 4 + parts.iter().map(|part| part.len()).sum::<usize>();
    out.put_u8(tag);
    // The parts came in one frame of at most 1 MiB, so the length fits.
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    for part in parts {
        out.put_slice(part);
    }
}

impl AsyncRead for SqlTransport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.phase = StartupPhase::Open;
        if self.greeting.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, buffer);
        }
        let count = buffer.remaining().min(self.greeting.len());
        buffer.put_slice(self.greeting.get(..count).unwrap_or_default());
        self.greeting.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SqlTransport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.phase {
            StartupPhase::StartUp => Poll::Ready(Ok(bytes.len())),
            StartupPhase::Open => Pin::new(&mut self.inner).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl TlsStream for SqlTransport {
    /// None: authentication is complete.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
