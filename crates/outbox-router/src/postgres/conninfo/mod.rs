//! Where to connect and as whom: libpq's URL, its `key=value` form, the `PG*` variables and the password file.
//!
//! People already have these; a second syntax would be one more thing to get wrong. Two things differ from libpq,
//! both on purpose. The default `sslmode` verifies the server fully unless it is on this machine, because libpq's
//! `prefer` protects from nobody. And what we do not implement is refused by name instead of being ignored.
//!
//! No error and no `Debug` output of this module repeats a value that might be, or contain, a password.

mod parameters;
mod parse;
mod passfile;
pub mod variables;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

pub use parameters::Environment;
use parameters::{Values, supported_names};

use super::require_auth::RequireAuth;

/// What libpq calls a connection string, resolved: every default filled in.
#[derive(Clone, Debug)]
pub struct ConnInfo {
    /// The server's name or socket directory.
    pub host: Host,
    /// Connect to this address instead of looking the name up; the name is still what a certificate must carry.
    pub hostaddr: Option<IpAddr>,
    /// TCP port, also the last part of a unix socket's file name.
    pub port: u16,
    /// The role.
    pub user: String,
    /// The database; the role's name when nothing else was said.
    pub dbname: String,
    /// From the connection string, `PGPASSWORD` or the password file.
    pub password: Option<Password>,
    /// Only when the user named one; the router has its own default.
    pub application_name: Option<String>,
    /// The limit for the whole way from the first packet to a session that is ready.
    pub connect_timeout: Duration,
    /// Which methods of authentication the server may ask for.
    pub require_auth: RequireAuth,
    /// How much of TLS is demanded.
    pub sslmode: SslMode,
    /// Which certificate authorities count.
    pub sslrootcert: Option<RootCertificates>,
    /// The certificate we show, with its key.
    pub client_certificate: Option<ClientCertificate>,
    /// What the user should be told at every start; contains no secret.
    pub warnings: Vec<String>,
}

/// The server's end of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A host name or address.
    Tcp(String),
    /// The directory of a unix socket.
    Unix(PathBuf),
}

impl Host {
    fn parse(text: &str) -> Result<Self, ConnInfoError> {
        if text.contains(',') {
            Err(ConnInfoError::SeveralHosts)
        } else if text.contains('@') {
            Err(ConnInfoError::StrayAt)
        } else if text.starts_with('/') {
            Ok(Self::Unix(PathBuf::from(text)))
        } else {
            Ok(Self::Tcp(text.to_owned()))
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    UnixSocket,
    Loopback,
    Remote,
}

/// A password: printed as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Wraps a password.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The bytes to authenticate with, and for nothing else.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// libpq's `sslmode`. Its `allow` is read as [`SslMode::Prefer`], which is never weaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// Never encrypt.
    Disable,
    /// Encrypt unless the server says it cannot; verify nothing.
    Prefer,
    /// Encrypt; verify the chain only when `sslrootcert` is given (as libpq does).
    Require,
    /// Encrypt and verify that a trusted authority signed the certificate.
    VerifyCa,
    /// The same, and that the certificate is this host's.
    VerifyFull,
}

impl SslMode {
    fn parse(text: &str) -> Result<Self, ConnInfoError> {
        match text {
            "disable" => Ok(Self::Disable),
            "allow" | "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyCa),
            "verify-full" => Ok(Self::VerifyFull),
            _ => Err(ConnInfoError::Value {
                name: "sslmode",
                expected: "one of disable, allow, prefer, require, verify-ca, verify-full",
            }),
        }
    }
}

impl fmt::Display for SslMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        })
    }
}

/// Where the trusted authorities come from. Without `sslrootcert` the system's are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootCertificates {
    /// `sslrootcert=system`
    System,
    /// A PEM file: authorities, or the server's own certificate.
    File(PathBuf),
}

/// A client certificate and its key, both PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// `sslcert`: the chain, ours first.
    pub certificate: PathBuf,
    /// `sslkey`
    pub key: PathBuf,
}

/// A connection string that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConnInfoError {
    /// Neither form was recognised.
    #[error(
        "the connection string is neither a postgres:// URL nor key=value pairs; write postgres://user@host:5432/database"
    )]
    Form,
    /// A stray or missing quote, or a word without a value.
    #[error("the connection string cannot be read: {0}")]
    Syntax(&'static str),
    /// `%` without two hexadecimal digits, or bytes that are no UTF-8.
    #[error("the connection URL has a broken percent-encoding; write a literal % as %25")]
    PercentEncoding,
    /// An `@` where none can stand: nearly always part of a password.
    #[error(
        "the connection URL has an @ in the wrong place; write @ / : ? # in a user name or password as %40 %2F %3A %3F %23"
    )]
    StrayAt,
    /// Fail-over between hosts is a decision about history, not about addresses.
    #[error(
        "several hosts are given; name one (a proxy or DNS name that follows the primary is fine)"
    )]
    SeveralHosts,
    /// A parameter we do not know, or know and do not implement.
    #[error("connection parameter {name:?} is not supported; supported are {supported}", supported = supported_names())]
    Unknown {
        /// The parameter's name as written.
        name: String,
    },
    /// A variable that would change what is trusted or reached, and that we do not implement.
    #[error("environment variable {0} is set but not supported; unset it for the router")]
    Variable(&'static str),
    /// A value outside its domain. The value itself is not repeated: it might be a misplaced password.
    #[error("connection parameter {name} must be {expected}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// What it may be.
        expected: &'static str,
    },
    /// Nobody said who we are.
    #[error("no user is given; name one in the connection string or in PGUSER")]
    User,
}

/// What libpq of the usual distributions uses when no host is named.
const DEFAULT_SOCKET_DIRECTORY: &str = "/var/run/postgresql";
const DEFAULT_PORT: u16 = 5432;
/// Long enough for a slow handshake across the world, short enough that a standby's takeover is not held up by it.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl ConnInfo {
    /// Resolves a connection string, or the environment alone when there is none.
    ///
    /// The string wins over the environment, which wins over the defaults; an empty value counts as absent.
    ///
    /// # Errors
    /// When the text cannot be read, names something unsupported, or no user is known.
    pub fn resolve(text: Option<&str>, env: Environment<'_>) -> Result<Self, ConnInfoError> {
        let values = Values::collect(text, env)?;
        let host = Host::parse(values.get("host").unwrap_or(DEFAULT_SOCKET_DIRECTORY))?;
        let hostaddr =
            values.parsed("hostaddr", "one IP address", |text| text.parse::<IpAddr>().ok())?;
        let host = match (values.get("host"), hostaddr, host) {
            // As in libpq, an address alone means TCP.
            (None, Some(address), _) => Host::Tcp(address.to_string()),
            // libpq would connect to the address and leave the socket alone.
            (Some(_), Some(_), Host::Unix(_)) => {
                return Err(ConnInfoError::Value {
                    name: "hostaddr",
                    expected: "left out when host is the directory of a unix socket",
                });
            }
            (_, _, host) => host,
        };
        let port = values
            .parsed("port", "one number between 1 and 65535", |text| {
                text.parse::<u16>().ok().filter(|port| *port != 0)
            })?
            .unwrap_or(DEFAULT_PORT);
        let connect_timeout = values
            .parsed("connect_timeout", "a number of seconds", |text| text.parse::<u64>().ok())?
            .filter(|seconds| *seconds != 0)
            .map_or(DEFAULT_CONNECT_TIMEOUT, Duration::from_secs);
        let user = values.get("user").ok_or(ConnInfoError::User)?.to_owned();
        let dbname = values.get("dbname").unwrap_or(&user).to_owned();
        let mut info = Self {
            hostaddr,
            port,
            password: values.get("password").map(Password::new),
            application_name: values
                .get("application_name")
                .or_else(|| values.get("fallback_application_name"))
                .map(str::to_owned),
            connect_timeout,
            require_auth: values
                .get("require_auth")
                .map_or_else(|| Ok(RequireAuth::default()), RequireAuth::parse)?,
            sslmode: SslMode::Disable,
            sslrootcert: None,
            client_certificate: values.client_certificate()?,
            warnings: Vec::new(),
            host,
            user,
            dbname,
        };
        info.settle_tls(&values)?;
        info.look_password_up(&values, env);
        Ok(info)
    }

    /// What is connected to, for messages: `host:port` or the socket's path.
    #[must_use]
    pub fn target(&self) -> String {
        match &self.host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]:{}", self.port),
            Host::Tcp(name) => format!("{name}:{}", self.port),
            Host::Unix(_) => self.socket_path().display().to_string(),
        }
    }

    /// The socket file PostgreSQL makes for this port; meaningful for [`Host::Unix`].
    pub(super) fn socket_path(&self) -> PathBuf {
        let directory = match &self.host {
            Host::Unix(directory) => directory.clone(),
            Host::Tcp(_) => PathBuf::from(DEFAULT_SOCKET_DIRECTORY),
        };
        directory.join(format!(".s.PGSQL.{}", self.port))
    }

    /// By configuration only: what is really reached is looked at again when the socket is
    /// connected.
    fn place(&self) -> Place {
        let address = match (&self.host, self.hostaddr) {
            (Host::Unix(_), _) => return Place::UnixSocket,
            // The address is what is connected to; the name is only what a certificate must carry.
            (Host::Tcp(_), Some(address)) => Some(address),
            (Host::Tcp(name), None) if name.eq_ignore_ascii_case("localhost") => {
                return Place::Loopback;
            }
            (Host::Tcp(name), None) => name.parse().ok(),
        };
        match address {
            Some(address) if address.to_canonical().is_loopback() => Place::Loopback,
            Some(_) | None => Place::Remote,
        }
    }

    fn settle_tls(&mut self, values: &Values) -> Result<(), ConnInfoError> {
        let named = values.get("sslmode").map(SslMode::parse).transpose()?;
        let place = self.place();
        let default = match place {
            Place::UnixSocket => SslMode::Disable,
            Place::Loopback => SslMode::Prefer,
            Place::Remote => SslMode::VerifyFull,
        };
        self.sslrootcert = values.get("sslrootcert").map(|text| match text {
            "system" => RootCertificates::System,
            path => RootCertificates::File(PathBuf::from(path)),
        });
        let by_roots = match &self.sslrootcert {
            // A name signed by any public authority proves nothing unless the name is checked.
            Some(RootCertificates::System) => SslMode::VerifyFull,
            Some(RootCertificates::File(_)) | None => default,
        };
        self.sslmode = named.unwrap_or(by_roots);
        if self.sslrootcert == Some(RootCertificates::System) && self.sslmode != SslMode::VerifyFull
        {
            return Err(ConnInfoError::Value {
                name: "sslmode",
                expected: "verify-full when sslrootcert is system",
            });
        }
        if place == Place::Remote && self.sslmode < SslMode::VerifyFull {
            self.warnings.push(format!(
                "sslmode {} does not prove that {} is the right server; use verify-full with sslrootcert",
                self.sslmode,
                self.target()
            ));
        }
        Ok(())
    }

    fn look_password_up(&mut self, values: &Values, env: Environment<'_>) {
        if self.password.is_some() {
            return;
        }
        let path = match (values.get("passfile"), env("HOME")) {
            (Some(path), _) => PathBuf::from(path),
            (None, Some(home)) => PathBuf::from(home).join(".pgpass"),
            (None, None) => return,
        };
        let host = match &self.host {
            Host::Unix(directory) if directory.as_os_str() == DEFAULT_SOCKET_DIRECTORY => {
                "localhost".to_owned()
            }
            Host::Unix(directory) => directory.display().to_string(),
            Host::Tcp(name) => name.clone(),
        };
        let wanted = [&*host, &*self.port.to_string(), &*self.dbname, &*self.user];
        match passfile::password(&path, wanted) {
            Ok(password) => self.password = password,
            Err(warning) => self.warnings.push(warning),
        }
    }
}
