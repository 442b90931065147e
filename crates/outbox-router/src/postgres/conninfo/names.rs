//! The names of the parameters that a connection string may have, and what to do instead of each
//! other parameter of libpq.
//!
//! A parameter that has no effect here is refused and not ignored: whoever wrote it relies on it.

pub(super) const PARAMETERS: [&str; 16] = [
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "passfile",
    "require_auth",
    "application_name",
    "fallback_application_name",
    "connect_timeout",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "target_session_attrs",
];

const LEAVE_OUT: &str = "leave it out";
const DEAD_PEER: &str =
    "leave it out: the router finds a dead connection by itself, within ten seconds";
const NO_GSSAPI: &str =
    "leave it out: GSSAPI is not implemented; use scram-sha-256 or a client certificate";
const NO_OAUTH: &str =
    "leave it out: OAuth is not implemented; use scram-sha-256 or a client certificate";
const NO_SERVICE: &str =
    "write what the service file says into the connection string: host, port, dbname, user";
const NO_REVOCATION: &str =
    "leave it out: revocation lists are not read; name the authority by sslrootcert";
const ENCRYPTED_KEY: &str = "store the key without a passphrase, readable by the router alone: openssl pkey -in KEY -out NEW";
const TLS_RANGE: &str = "leave it out: TLS 1.2 and 1.3 are spoken";
const PROTOCOL: &str = "leave it out: protocol 3.0 is spoken";
const OWN_SESSION: &str = "leave it out: the router sets what its sessions need";

/// Every other parameter of libpq (manual, "Parameter Key Words", PostgreSQL 18), and what to type
/// instead.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("channel_binding", "leave it out: it is used wherever the server offers it over TLS"),
    ("client_encoding", OWN_SESSION),
    ("gssdelegation", NO_GSSAPI),
    ("gssencmode", "leave it out: encrypt by TLS, with sslmode"),
    ("gsslib", NO_GSSAPI),
    ("keepalives", DEAD_PEER),
    ("keepalives_count", DEAD_PEER),
    ("keepalives_idle", DEAD_PEER),
    ("keepalives_interval", DEAD_PEER),
    ("krbsrvname", NO_GSSAPI),
    ("load_balance_hosts", "leave it out: the router connects to one host"),
    ("max_protocol_version", PROTOCOL),
    ("min_protocol_version", PROTOCOL),
    ("oauth_client_id", NO_OAUTH),
    ("oauth_client_secret", NO_OAUTH),
    ("oauth_issuer", NO_OAUTH),
    ("oauth_scope", NO_OAUTH),
    ("options", OWN_SESSION),
    ("replication", "leave it out: the router asks for replication where it needs it"),
    ("requirepeer", LEAVE_OUT),
    ("requiressl", "write sslmode=require, or verify-full with sslrootcert"),
    ("scram_client_key", "write the password, or a file with it: ${file:/path}"),
    ("scram_server_key", "write the password, or a file with it: ${file:/path}"),
    ("service", NO_SERVICE),
    ("servicefile", NO_SERVICE),
    ("ssl_max_protocol_version", TLS_RANGE),
    ("ssl_min_protocol_version", TLS_RANGE),
    ("sslcertmode", "leave it out: a certificate is sent where sslcert names one"),
    ("sslcompression", "leave it out: TLS is never compressed"),
    ("sslcrl", NO_REVOCATION),
    ("sslcrldir", NO_REVOCATION),
    ("sslkeylogfile", LEAVE_OUT),
    ("sslnegotiation", "leave it out: TLS is asked for as PostgreSQL 16 and earlier do"),
    ("sslpassword", ENCRYPTED_KEY),
    ("sslsni", "leave it out: the host's name is always sent"),
    ("tcp_user_timeout", DEAD_PEER),
];

pub(super) fn supported_names() -> String {
    PARAMETERS.join(", ")
}

/// The parameter of libpq, and what to type instead; `None`: libpq does not have it either.
pub(super) fn instead_of(name: &str) -> Option<(&'static str, &'static str)> {
    UNSUPPORTED.iter().find(|(known, _)| *known == name).copied()
}
