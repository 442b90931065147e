//! The names of the parameters that a connection string may have.

pub(super) const PARAMETERS: [&str; 15] = [
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
];

pub(super) fn supported_names() -> String {
    PARAMETERS.join(", ")
}
