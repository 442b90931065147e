//! Why a connection string cannot be used.

use thiserror::Error;

use super::names::supported_names;

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
    /// Several hosts: failing over between hosts is a decision about the server's history, not
    /// about addresses.
    #[error(
        "several hosts are given; name one (a proxy or DNS name that follows the primary is fine)"
    )]
    SeveralHosts,
    /// A parameter of libpq that is not implemented here.
    #[error("connection parameter {name} is not supported; {instead}")]
    Unsupported {
        /// The parameter.
        name: &'static str,
        /// What to type instead.
        instead: &'static str,
    },
    /// A parameter that libpq does not have.
    #[error("connection parameter {name:?} is not supported; supported are {supported}", supported = supported_names())]
    Unknown {
        /// The parameter's name as written.
        name: String,
    },
    /// A variable that would change what is trusted or where to connect, and that is not
    /// implemented.
    #[error("environment variable {0} is set but not supported; unset it for the router")]
    Variable(&'static str),
    /// A value outside its domain. The value itself is not repeated: it might be a misplaced
    /// password.
    #[error("connection parameter {name} must be {expected}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// What it may be.
        expected: &'static str,
    },
    /// Neither the connection string nor the environment names a user.
    #[error("no user is given; name one in the connection string or in PGUSER")]
    User,
}
