//! Ordinary SQL sessions, by `tokio-postgres` over our own transport.
//!
//! Connecting is ours because the rules for TLS and for passwords in clear text must be the same on both connections
//! of a router: what the replication connection refuses, the monitor must not do. `tokio-postgres` is handed the finished
//! transport as if it had negotiated TLS itself, which also gives it the channel binding for SCRAM.

use std::convert::Infallible;
use std::fmt;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use super::transport::{Privacy, SocketOptions, Transport};
use super::{ConnInfo, ConnectError, Host};

/// Drives an SQL session; the caller runs it for as long as the client is used.
pub type SqlConnection = tokio_postgres::Connection<SqlTransport, SqlTransport>;

/// Opens an SQL session, all within `connect_timeout`.
///
/// `search_path` is `pg_catalog`: names of tables are to be qualified, and no schema of somebody else's can put its own function
/// in the place of a system one.
///
/// # Errors
/// Whatever stands in the way; see [`ConnectError`].
pub async fn connect_sql(
    info: &ConnInfo,
    application_name: &str,
) -> Result<(tokio_postgres::Client, SqlConnection), ConnectError> {
    let connect = async {
        let socket = SocketOptions::default();
        let transport = SqlTransport::new(Transport::connect(info, &socket).await?);
        info.to_sql_config(application_name)
            .connect_raw(transport, AlreadyConnected)
            .await
            .map_err(|error| client_error(info, error))
    };
    let limit = info.connect_timeout;
    match tokio::time::timeout(limit, Box::pin(connect)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(ConnectError::Timeout { target: info.target(), after: limit }),
    }
}

impl ConnInfo {
    /// The same server, role and database in the words of `tokio-postgres`.
    ///
    /// To be used with a transport that is already secured, as [`connect_sql`] does: of `sslmode` it carries nothing.
    #[must_use]
    pub fn to_sql_config(&self, application_name: &str) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        match &self.host {
            Host::Tcp(name) => config.host(name),
            Host::Unix(directory) => config.host_path(directory),
        };
        config
            .port(self.port)
            .user(&self.user)
            .dbname(&self.dbname)
            .application_name(application_name)
            .options("-c search_path=pg_catalog -c standard_conforming_strings=on")
            .connect_timeout(self.connect_timeout)
            .ssl_mode(SslMode::Require)
            .ssl_negotiation(SslNegotiation::Direct);
        if let Some(password) = &self.password {
            config.password(password.expose());
        }
        config
    }
}

fn client_error(info: &ConnInfo, error: tokio_postgres::Error) -> ConnectError {
    let target = info.target();
    if let Some(refusal) = error.as_db_error() {
        return ConnectError::Server { target, message: Box::new(refusal.into()) };
    }
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref());
    match source.and_then(io::Error::get_ref) {
        Some(inner) if inner.is::<CleartextRequested>() => {
            ConnectError::PlaintextPassword { target }
        }
        Some(_) | None if says_password_missing(&error) => {
            ConnectError::PasswordMissing { target, user: info.user.clone() }
        }
        Some(_) | None => ConnectError::Client { target, source: error },
    }
}

/// `tokio-postgres` has no type for it.
fn says_password_missing(error: &tokio_postgres::Error) -> bool {
    let source = std::error::Error::source(error).map(ToString::to_string);
    source.is_some_and(|text| text == "password missing")
}

/// "TLS" that is already there.
struct AlreadyConnected;

impl TlsConnect<SqlTransport> for AlreadyConnected {
    type Stream = SqlTransport;
    type Error = Infallible;
    type Future = Ready<Result<SqlTransport, Infallible>>;

    fn connect(self, stream: SqlTransport) -> Self::Future {
        ready(Ok(stream))
    }
}

/// A transport that will not let a password out in clear text where others can read it.
#[derive(Debug)]
pub struct SqlTransport {
    inner: Transport,
    watch: Watch,
}

/// What was seen of the server's first message, the only one that can ask for a password.
#[derive(Debug)]
enum Watch {
    Watching { seen: Vec<u8> },
    Done,
}

/// AuthenticationCleartextPassword.
const CLEARTEXT_REQUEST: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 3];

/// The reason for ending the connection, found again in `tokio-postgres`' error.
#[derive(Debug)]
struct CleartextRequested;

impl fmt::Display for CleartextRequested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server asks for the password in clear text")
    }
}

impl std::error::Error for CleartextRequested {}

impl SqlTransport {
    fn new(inner: Transport) -> Self {
        let watch = match inner.privacy() {
            Privacy::Exposed => Watch::Watching { seen: Vec::new() },
            Privacy::Encrypted | Privacy::Local => Watch::Done,
        };
        Self { inner, watch }
    }
}

impl Watch {
    fn see(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Self::Watching { seen } = self else { return Ok(()) };
        let missing = CLEARTEXT_REQUEST.len() - seen.len();
        seen.extend(bytes.iter().take(missing));
        if *seen == CLEARTEXT_REQUEST {
            return Err(io::Error::other(CleartextRequested));
        }
        if seen.len() == CLEARTEXT_REQUEST.len() {
            *self = Self::Done;
        }
        Ok(())
    }
}

impl AsyncRead for SqlTransport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let verdict = self.watch.see(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(verdict)
    }
}

impl AsyncWrite for SqlTransport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl TlsStream for SqlTransport {
    fn channel_binding(&self) -> ChannelBinding {
        self.inner
            .channel_binding()
            .map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_the_password_is_seen_however_it_is_cut() {
        for cut in 0..CLEARTEXT_REQUEST.len() {
            let mut watch = Watch::Watching { seen: Vec::new() };
            let (first, second) = CLEARTEXT_REQUEST.split_at(cut);
            watch.see(first).unwrap();
            let error = watch.see(second).unwrap_err();
            assert!(error.get_ref().unwrap().is::<CleartextRequested>());
        }
    }

    #[test]
    fn any_other_first_message_ends_the_watch() {
        let mut watch = Watch::Watching { seen: Vec::new() };
        watch.see(b"R\0\0\0\x0c\0\0\0\x05salt").unwrap();
        assert!(matches!(watch, Watch::Done));
        watch.see(&CLEARTEXT_REQUEST).unwrap();
    }
}
