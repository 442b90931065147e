//! What an error of a request means: whether a person has to mend the table, or the request is
//! repeated as it is.

use relay::{Case, Code, Failure, Name, source::quote_identifier};
use tokio_postgres::error::SqlState;

use crate::postgres::{ServerMessage, sql_failure};

/// Whether the table, or its schema, does not exist.
pub(super) fn is_absent(error: &tokio_postgres::Error) -> bool {
    let code = error.code();
    code == Some(&SqlState::UNDEFINED_TABLE) || code == Some(&SqlState::INVALID_SCHEMA_NAME)
}

/// The failure of a request, made by this role.
pub(super) fn held_failure(error: tokio_postgres::Error, role: &str) -> Failure {
    let Some(server) = error.as_db_error() else { return sql_failure(error) };
    let message = ServerMessage::from(server);
    let what = format!("outbox_router.held: PostgreSQL said {message}");
    match *server.code() {
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => {
            Failure::new(Code::HeldTable, what)
        }
        SqlState::INSUFFICIENT_PRIVILEGE => {
            Failure::of(Case::HeldTableForbidden, what).naming(Name::Role, quote_identifier(role))
        }
        // The table is not as set-up makes it: by hand, or by another version.
        SqlState::UNDEFINED_COLUMN
        | SqlState::DATATYPE_MISMATCH
        | SqlState::UNDEFINED_FUNCTION
        | SqlState::NOT_NULL_VIOLATION
        | SqlState::CHECK_VIOLATION
        | SqlState::WRONG_OBJECT_TYPE => Failure::of(Case::HeldTableUnsuitable, what),
        _ => Failure::new(sql_failure(error).code, what),
    }
}

/// A row that this version cannot have written.
pub(super) fn unsuitable(what: String) -> Failure {
    Failure::of(Case::HeldTableUnsuitable, format!("outbox_router.held: {what}"))
}
