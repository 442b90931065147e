//! What a connection string says about TLS.

use std::fmt;
use std::path::PathBuf;

use super::ConnInfoError;

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
    /// Encrypt, verify the chain, and verify that the certificate names this host.
    VerifyFull,
}

impl SslMode {
    pub(super) fn parse(text: &str) -> Result<Self, ConnInfoError> {
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

/// Where the trusted authorities are read from. Without `sslrootcert` the system's are used.
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
    /// `sslcert`: the chain, the client's own certificate first.
    pub certificate: PathBuf,
    /// `sslkey`
    pub key: PathBuf,
}
