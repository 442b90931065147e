//! Where to connect and as whom: libpq's URL, its `key=value` form, the `PG*` variables and the
//! password file.
//!
//! These forms are in use already, and a second syntax would be one more source of mistakes. This
//! module differs from libpq in two points, both on purpose. The default `sslmode` is `verify-full`
//! unless the server is on this machine, because libpq's `prefer` does not protect from an active
//! attacker. And what is not implemented is refused by name instead of being ignored.
//!
//! No error and no `Debug` output of this module repeats a value that might be, or contain, a
//! password.

mod error;
mod names;
mod parameters;
mod parse;
mod passfile;
mod password;
mod tls;
pub mod variables;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use error::ConnInfoError;
use parameters::Values;
pub use parameters::VariableLookup;
pub use password::Password;
pub use tls::{ClientCertificate, RootCertificates, SslMode};

use super::require_auth::RequireAuth;

/// A connection string as libpq defines it, with every default filled in.
#[derive(Clone, Debug)]
pub struct ConnInfo {
    /// The server's name or address, or the directory of its socket.
    pub host: Host,
    /// The address to connect to, instead of looking the name up; the certificate must still
    /// contain the name.
    pub hostaddr: Option<IpAddr>,
    /// TCP port, and the last part of a unix socket's file name.
    pub port: u16,
    /// The role.
    pub user: String,
    /// The database; by default the one with the role's name.
    pub dbname: String,
    /// From the connection string, `PGPASSWORD` or the password file.
    pub password: Option<Password>,
    /// `None` when the user named none: the router has its own default.
    pub application_name: Option<String>,
    /// The limit for everything from the first packet to a session that is ready.
    pub connect_timeout: Duration,
    /// Which methods of authentication the server may ask for.
    pub require_auth: RequireAuth,
    /// How much of TLS is demanded.
    pub sslmode: SslMode,
    /// The trusted certificate authorities; `None`: the system's.
    pub sslrootcert: Option<RootCertificates>,
    /// The client certificate, with its key.
    pub client_certificate: Option<ClientCertificate>,
    /// Warnings that are logged at every start; they contain no secret.
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
enum Line {
    UnixSocket,
    Loopback,
    Remote,
}

/// The socket directory of libpq as the usual distributions build it.
const DEFAULT_SOCKET_DIRECTORY: &str = "/var/run/postgresql";
const DEFAULT_PORT: u16 = 5432;
/// `target_session_attrs` chooses between hosts, of which there is one. Every session of the router
/// refuses a standby anyway.
const PRIMARY_ONLY: &str =
    "any, read-write or primary: the slot is read on the primary, and a standby is refused anyway";
/// Long enough for a slow handshake over a long distance, short enough not to hold up a standby's
/// takeover.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl ConnInfo {
    /// Resolves a connection string, or the environment alone when there is none.
    ///
    /// The string wins over the environment, which wins over the defaults; an empty value counts as
    /// absent.
    ///
    /// # Errors
    /// The text cannot be read, names something unsupported, has a value outside its range, or no
    /// user is known.
    pub fn resolve(text: Option<&str>, env: VariableLookup<'_>) -> Result<Self, ConnInfoError> {
        let values = Values::collect(text, env)?;
        let host = Host::parse(values.get("host").unwrap_or(DEFAULT_SOCKET_DIRECTORY))?;
        let hostaddr =
            values.parsed("hostaddr", "one IP address", |text| text.parse::<IpAddr>().ok())?;
        let host = match (values.get("host"), hostaddr, host) {
            // As in libpq, an address alone means TCP.
            (None, Some(address), _) => Host::Tcp(address.to_string()),
            // libpq would connect to the address and ignore the socket directory.
            (Some(_), Some(_), Host::Unix(_)) => {
                return Err(ConnInfoError::Value {
                    name: "hostaddr",
                    expected: "left out when host is the directory of a Unix socket",
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
        values.parsed("target_session_attrs", PRIMARY_ONLY, |attributes| {
            ["any", "read-write", "primary"].contains(&attributes).then_some(())
        })?;
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

    /// The server for messages: `host:port` or the socket's path.
    #[must_use]
    pub fn target(&self) -> String {
        match &self.host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]:{}", self.port),
            Host::Tcp(name) => format!("{name}:{}", self.port),
            Host::Unix(_) => self.socket_path().display().to_string(),
        }
    }

    /// The URL of another role's connection to the same database.
    #[must_use]
    pub fn as_role(&self, role: &str) -> String {
        let encode = |text: &str| -> String {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
            let encode = |byte| match byte {
                byte if plain(byte) => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            };
            text.bytes().map(encode).collect()
        };
        let (role, database) = (encode(role), encode(&self.dbname));
        match &self.host {
            Host::Tcp(_) => format!("postgres://{role}@{}/{database}", self.target()),
            Host::Unix(directory) => {
                let directory = encode(&directory.display().to_string());
                format!("postgres://{role}@{directory}:{}/{database}", self.port)
            }
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

    /// Where the server is, by configuration only; once the socket is connected, its peer's address
    /// is checked again ([`Privacy`](super::transport::Privacy)).
    fn place(&self) -> Line {
        let address = match (&self.host, self.hostaddr) {
            (Host::Unix(_), _) => return Line::UnixSocket,
            // The connection goes to the address; the name is only what the certificate must
            // contain.
            (Host::Tcp(_), Some(address)) => Some(address),
            (Host::Tcp(name), None) if name.eq_ignore_ascii_case("localhost") => {
                return Line::Loopback;
            }
            (Host::Tcp(name), None) => name.parse().ok(),
        };
        match address {
            Some(address) if address.to_canonical().is_loopback() => Line::Loopback,
            Some(_) | None => Line::Remote,
        }
    }

    fn settle_tls(&mut self, values: &Values) -> Result<(), ConnInfoError> {
        let named = values.get("sslmode").map(SslMode::parse).transpose()?;
        let place = self.place();
        let default = match place {
            Line::UnixSocket => SslMode::Disable,
            Line::Loopback => SslMode::Prefer,
            Line::Remote => SslMode::VerifyFull,
        };
        self.sslrootcert = values.get("sslrootcert").map(|text| match text {
            "system" => RootCertificates::System,
            path => RootCertificates::File(PathBuf::from(path)),
        });
        let by_roots = match &self.sslrootcert {
            // A certificate of a public authority proves nothing unless its name is checked.
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
        if place == Line::Remote && self.sslmode < SslMode::VerifyFull {
            self.warnings.push(format!(
                "sslmode {} does not prove that {} is the right server; use verify-full with sslrootcert",
                self.sslmode,
                self.target()
            ));
        }
        Ok(())
    }

    fn look_password_up(&mut self, values: &Values, env: VariableLookup<'_>) {
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
