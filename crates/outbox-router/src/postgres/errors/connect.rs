//! Why there is no session: everything that can fail between a [`super::super::ConnInfo`] and a
//! server that is ready for commands.
//!
//! Every variant names its target and has a kind; none contains a secret.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::super::require_auth::{Method, RequireAuth};
use super::{ProtocolError, ServerErrorKind, ServerMessage};

/// A connection that could not be established.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The host name could not be resolved to an address.
    #[error("cannot resolve the host of {target}")]
    Resolve {
        /// Host and port.
        target: String,
        /// The resolver's error.
        #[source]
        source: io::Error,
    },
    /// Nothing answers at the address: refused, no route, no socket file.
    #[error("cannot connect to PostgreSQL at {target}")]
    Unreachable {
        /// Host and port, or the socket.
        target: String,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// No session within `connect_timeout`.
    #[error("no session with PostgreSQL at {target} after {} s", after.as_secs_f32())]
    Timeout {
        /// Host and port, or the socket.
        target: String,
        /// The limit that was exceeded.
        after: Duration,
    },
    /// The connection ended before the session was ready.
    #[error("PostgreSQL at {target} closed the connection during start-up")]
    Closed {
        /// Host and port, or the socket.
        target: String,
        /// The operating system's error; `None` when the server closed the connection in an orderly
        /// way.
        #[source]
        source: Option<io::Error>,
    },
    /// Certificate files or trusted authorities that cannot be used.
    #[error("cannot prepare TLS for {target}")]
    TlsSetup {
        /// Host and port.
        target: String,
        /// The reason.
        #[source]
        source: TlsSetupError,
    },
    /// The server has no TLS, and `sslmode` demands it.
    #[error("the server at {target} does not offer TLS, which sslmode {mode} demands")]
    TlsRefused {
        /// Host and port.
        target: String,
        /// The `sslmode` in force.
        mode: super::super::SslMode,
    },
    /// The answer to the SSLRequest was neither `S` nor `N`.
    #[error("the server at {target} answered the TLS request with byte {answer:#04x}")]
    TlsAnswer {
        /// Host and port.
        target: String,
        /// The byte that was answered.
        answer: u8,
    },
    /// The handshake failed: nearly always because the certificate is not trusted or does not name
    /// this host.
    #[error("TLS handshake with {target} failed")]
    TlsHandshake {
        /// Host and port.
        target: String,
        /// The error of rustls or of the connection.
        #[source]
        source: io::Error,
    },
    /// The server asks for the password in clear text, and somebody other than the server could
    /// read it.
    #[error("the server at {target} asks for the password in clear text over {connection}")]
    PlaintextPassword {
        /// Host and port.
        target: String,
        /// Why the connection is unfit.
        connection: UnsuitableConnection,
    },
    /// The server asks for a method that `require_auth` rules out.
    #[error(
        "the server at {target} authenticates by method {method}, which require_auth={require_auth} rules out"
    )]
    MethodRuledOut {
        /// Host and port, or the socket.
        target: String,
        /// The method that it asks for; `none` when it asks for nothing.
        method: Method,
        /// The methods that the user allows.
        require_auth: RequireAuth,
    },
    /// The server offers channel binding on a connection without TLS, which has nothing to bind to.
    #[error("the server at {target} offers SCRAM-SHA-256-PLUS on a connection without TLS")]
    TlsStripped {
        /// Host and port, or the socket.
        target: String,
    },
    /// The server asks for more SCRAM iterations than accepted, or for none.
    #[error("the server at {target} asks for {asked} SCRAM iterations; accepted are {} to {}", accepted.start(), accepted.end())]
    ScramIterations {
        /// Host and port, or the socket.
        target: String,
        /// The number that it asks for.
        asked: u64,
        /// The numbers that are accepted.
        accepted: RangeInclusive<u64>,
    },
    /// The server asks for a password, and none is configured.
    #[error("the server at {target} asks for a password for user {user:?}, and none is configured")]
    PasswordMissing {
        /// Host and port, or the socket.
        target: String,
        /// The role.
        user: String,
    },
    /// The server asks for a method of authentication that is not supported.
    #[error("the server at {target} asks for authentication by {method}, which is not supported")]
    AuthenticationMethod {
        /// Host and port, or the socket.
        target: String,
        /// The method's name.
        method: String,
    },
    /// The server did not prove in the SCRAM exchange that it knows the password.
    #[error("the server at {target} failed to prove its identity in the SCRAM exchange")]
    ServerProof {
        /// Host and port, or the socket.
        target: String,
        /// Which step failed.
        #[source]
        source: io::Error,
    },
    /// The server refused the session.
    #[error("PostgreSQL at {target} refused the session: {message}")]
    Server {
        /// Host and port, or the socket.
        target: String,
        /// The server's ErrorResponse.
        message: Box<ServerMessage>,
    },
    /// The peer does not speak PostgreSQL's protocol.
    #[error("what answers at {target} does not speak PostgreSQL's protocol")]
    Protocol {
        /// Host and port, or the socket.
        target: String,
        /// Which rule of the protocol was violated.
        #[source]
        source: ProtocolError,
    },
    /// `tokio-postgres` failed for a reason of its own.
    #[error("cannot open an SQL session at {target}")]
    Client {
        /// Host and port, or the socket.
        target: String,
        /// Its error.
        #[source]
        source: tokio_postgres::Error,
    },
}

/// Why a connection is unfit for a password in clear text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsuitableConnection {
    /// It is not encrypted: everybody on the network path can read it.
    Unencrypted,
    /// It is encrypted, but the server's certificate was not verified: an impostor can read it.
    Unverified,
}

impl fmt::Display for UnsuitableConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unencrypted => "an unencrypted connection",
            Self::Unverified => "a TLS connection whose certificate was not verified",
        })
    }
}

/// What has to change before a connection can be established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectErrorKind {
    /// Network, name service or a server that is down: a later attempt may succeed.
    Transport,
    /// Certificates or the server's TLS settings: a person has to act.
    Tls,
    /// Passwords and authentication methods: a person has to act.
    Authentication,
    /// The server answered with an error.
    Server(ServerErrorKind),
    /// The peer is not PostgreSQL, or something between changes what is sent.
    Protocol,
}

impl ConnectError {
    /// What has to change before a connection can be established.
    #[must_use]
    pub fn kind(&self) -> ConnectErrorKind {
        match self {
            Self::Resolve { .. }
            | Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Closed { .. }
            | Self::Client { .. } => ConnectErrorKind::Transport,
            Self::TlsSetup { .. } | Self::TlsRefused { .. } | Self::TlsAnswer { .. } => {
                ConnectErrorKind::Tls
            }
            // A connection that broke during the handshake says nothing about certificates.
            Self::TlsHandshake { source, .. } => match source.get_ref() {
                Some(cause) if cause.is::<rustls::Error>() => ConnectErrorKind::Tls,
                Some(_) | None => ConnectErrorKind::Transport,
            },
            Self::PlaintextPassword { .. }
            | Self::MethodRuledOut { .. }
            | Self::TlsStripped { .. }
            | Self::ScramIterations { .. }
            | Self::PasswordMissing { .. }
            | Self::AuthenticationMethod { .. }
            | Self::ServerProof { .. } => ConnectErrorKind::Authentication,
            Self::Server { message, .. } => {
                let kind = message.kind();
                if kind == ServerErrorKind::Authentication {
                    ConnectErrorKind::Authentication
                } else {
                    ConnectErrorKind::Server(kind)
                }
            }
            Self::Protocol { .. } => ConnectErrorKind::Protocol,
        }
    }
}

/// Certificate files or trusted authorities that cannot be used.
#[derive(Debug, Error)]
pub enum TlsSetupError {
    /// A file that cannot be read as PEM.
    #[error("cannot read {} as PEM", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the PEM reader.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// A file without a certificate in it.
    #[error("{} contains no certificate", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// No trusted certificates of the system were found.
    #[error("the system's trusted certificates cannot be found; give sslrootcert")]
    NoSystemRoots,
    /// The configured host is not a name that a certificate can contain.
    #[error("{host:?} is no name that a certificate can carry")]
    HostName {
        /// The configured host.
        host: String,
    },
    /// rustls refuses the certificate or the key.
    #[error("the certificate or key cannot be used")]
    Rustls(#[from] rustls::Error),
}
