//! Every environment variable of libpq (manual, section "Environment Variables"), and how it is
//! treated.
//!
//! A variable that would change where or how securely libpq connects is either honoured, or refused
//! by name as its parameter would be in a connection string. A variable that is ignored has the
//! reason why that does no harm.

/// How a variable is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It sets the connection parameter of this name, unless the connection string does.
    Parameter(&'static str),
    /// A value is an error: the parameter that it would set is not implemented.
    Refused,
    /// It changes neither where nor how securely the router connects.
    Ignored {
        /// Why it does no harm.
        because: &'static str,
    },
}

/// A variable of libpq.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// How it is treated.
    pub treatment: Treatment,
}

const fn parameter(name: &'static str, parameter: &'static str) -> Variable {
    Variable { name, treatment: Treatment::Parameter(parameter) }
}

const fn refused(name: &'static str) -> Variable {
    Variable { name, treatment: Treatment::Refused }
}

const fn ignored(name: &'static str, because: &'static str) -> Variable {
    Variable { name, treatment: Treatment::Ignored { because } }
}

const NO_GSSAPI: &str = "GSSAPI is not implemented, and a server that asks for it is refused";
const PINNED: &str = "every session sets this parameter itself, so that rows arrive in one form";
const SERVICE_FILE: &str = "a service file is read only for PGSERVICE, which is refused";

/// In the order of the manual, with PGREQUIRESSL, which only libpq's source names.
pub const VARIABLES: [Variable; 43] = [
    parameter("PGHOST", "host"),
    refused("PGSSLNEGOTIATION"),
    parameter("PGHOSTADDR", "hostaddr"),
    parameter("PGPORT", "port"),
    parameter("PGDATABASE", "dbname"),
    parameter("PGUSER", "user"),
    parameter("PGPASSWORD", "password"),
    parameter("PGPASSFILE", "passfile"),
    parameter("PGREQUIREAUTH", "require_auth"),
    refused("PGCHANNELBINDING"),
    refused("PGSERVICE"),
    ignored("PGSERVICEFILE", SERVICE_FILE),
    refused("PGOPTIONS"),
    parameter("PGAPPNAME", "application_name"),
    parameter("PGSSLMODE", "sslmode"),
    // The former spelling of PGSSLMODE=require, undocumented since PostgreSQL 14 and still obeyed
    // by libpq.
    refused("PGREQUIRESSL"),
    ignored("PGSSLCOMPRESSION", "TLS is never compressed, which is the safer of its two values"),
    parameter("PGSSLCERT", "sslcert"),
    parameter("PGSSLKEY", "sslkey"),
    refused("PGSSLCERTMODE"),
    parameter("PGSSLROOTCERT", "sslrootcert"),
    refused("PGSSLCRL"),
    refused("PGSSLCRLDIR"),
    // A proxy may choose the server by the name in TLS's SNI extension.
    refused("PGSSLSNI"),
    refused("PGREQUIREPEER"),
    refused("PGSSLMINPROTOCOLVERSION"),
    refused("PGSSLMAXPROTOCOLVERSION"),
    refused("PGGSSENCMODE"),
    ignored("PGKRBSRVNAME", NO_GSSAPI),
    ignored("PGGSSLIB", NO_GSSAPI),
    ignored("PGGSSDELEGATION", NO_GSSAPI),
    parameter("PGCONNECT_TIMEOUT", "connect_timeout"),
    ignored("PGCLIENTENCODING", PINNED),
    parameter("PGTARGETSESSIONATTRS", "target_session_attrs"),
    refused("PGLOADBALANCEHOSTS"),
    refused("PGMINPROTOCOLVERSION"),
    ignored("PGMAXPROTOCOLVERSION", "we speak 3.0, the lowest version there is"),
    ignored("PGDATESTYLE", PINNED),
    ignored("PGTZ", PINNED),
    ignored("PGGEQO", "it tunes the planner for people's queries"),
    ignored("PGSYSCONFDIR", SERVICE_FILE),
    ignored("PGLOCALEDIR", "it names the translations of libpq's own messages"),
    ignored("PGOAUTHDEBUG", "OAuth is not implemented, and a server that asks for it is refused"),
];
