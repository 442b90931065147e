//! What an error of a request means: whether a person has to mend the table, or the request is
//! repeated as it is.

use relay::{Case, Code, Failure, Name, source::quote_identifier};
use tokio_postgres::{Client, error::SqlState};

use super::existence::exists;
use crate::postgres::{ServerMessage, sql_failure};

/// Whether a statement failed because this table, or its schema, does not exist. To a role that may
/// not use the schema PostgreSQL does not say which; other commands make the schema, too, for a
/// table of theirs.
pub(super) async fn is_absent(
    client: &Client,
    table: &str,
    error: &tokio_postgres::Error,
) -> Result<bool, tokio_postgres::Error> {
    let Some(code) = error.code() else { return Ok(false) };
    if [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME].contains(code) {
        return Ok(true);
    }
    if *code != SqlState::INSUFFICIENT_PRIVILEGE {
        return Ok(false);
    }
    Ok(!exists(client, table).await?)
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
