//! What an error of a statement means: whether a person has to mend something, and what to type.

use relay::{Case, Code, Failure, Name, TableName};
use tokio_postgres::error::SqlState;

use crate::postgres::{ServerMessage, quote_identifier, quote_table, sql_failure};

/// What is no number, and ends a statement by the error that names it.
pub(super) const ALTERED: &str = "the table was altered";

/// The table cannot be polled, and why.
pub(super) fn unfit(table: &TableName, what: &str) -> Failure {
    of_polled(Failure::new(Code::Polling, format!("{table} cannot be polled: {what}")), table)
}

fn of_polled(failure: Failure, table: &TableName) -> Failure {
    failure.naming(Name::Table, table).naming(Name::QuotedTable, quote_table(table))
}

/// There is no such table.
pub(super) fn missing(table: &TableName) -> Failure {
    Failure::of(Case::PolledMissing, format!("table {table} does not exist"))
        .naming(Name::Table, table)
}

/// The role may not do this to the table.
pub(super) fn forbidden(table: &TableName, role: &str, lacks: &str, grant: &str) -> Failure {
    let what = format!("role {role} may not {lacks} {table}: {grant}");
    Failure::of(Case::PermissionDenied, what).naming(Name::Role, quote_identifier(role))
}

/// Row-level security may hide rows of the table from the role.
pub(super) fn hidden(table: &TableName, role: &str) -> Failure {
    let quoted = quote_identifier(role);
    let statement = format!("alter role {quoted} bypassrls");
    let what = format!(
        "role {role} may not see every row of {table}, because of row-level security: {statement}"
    );
    Failure::of(Case::RowsHidden, what)
        .naming(Name::Role, quoted)
        .naming(Name::Statements, statement)
}

/// The role may not write this column.
pub(super) fn unwritable(table: &TableName, role: &str, column: &str) -> Failure {
    let (name, quoted) = (quote_identifier(column), quote_identifier(role));
    let grant = format!("grant update ({name}) on {} to {quoted}", quote_table(table));
    forbidden(table, role, &format!("update column {column} of"), &grant)
}

/// The server is a standby, where nothing can be marked.
pub(super) fn standby() -> Failure {
    let what = "this PostgreSQL is a standby server, rows are marked on the primary";
    Failure::of(Case::Standby, what)
}

/// The failure of a statement about a polled table.
pub(super) fn of_table(error: tokio_postgres::Error, table: &TableName) -> Failure {
    let Some(server) = error.as_db_error() else { return sql_failure(error) };
    let said = ServerMessage::from(server);
    let what = format!("{table}: PostgreSQL said {said}");
    match *server.code() {
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => missing(table),
        SqlState::UNDEFINED_COLUMN | SqlState::UNDEFINED_OBJECT => {
            Failure::new(Code::ColumnMissing, what).naming(Name::Table, table)
        }
        SqlState::INVALID_TEXT_REPRESENTATION if said.message.contains(ALTERED) => {
            let what = format!("table {table} was altered since it was described");
            of_polled(Failure::of(Case::TableAltered, what), table)
        }
        SqlState::INVALID_TEXT_REPRESENTATION if server.routine() == Some("enum_in") => {
            let words = "a word by which rows are read or marked is no label any more: name those \
                         that there are in outbox.mark (outbox.mark.published is one), or in where";
            unfit(table, &format!("PostgreSQL said {said}; {words}"))
        }
        // Of the key alone a text is read as JSON here.
        SqlState::INVALID_TEXT_REPRESENTATION => {
            let key = "a key in outbox.columns.aggregate_id that reads a text as JSON needs JSON in \
                       every pending row before PostgreSQL 16: name another column there, or \
                       correct the row";
            unfit(table, &format!("PostgreSQL said {said}; {key}"))
        }
        // A database whose encoding is UTF-8 has every character.
        SqlState::UNTRANSLATABLE_CHARACTER => {
            let key = "the encoding of this database is not UTF8, and a pending row has a character \
                       that it lacks: correct the row, or, where the character is an escape within \
                       the JSON of its key, name another column in outbox.columns.aggregate_id";
            unfit(table, &format!("PostgreSQL said {said}; {key}"))
        }
        // A database whose encoding is SQL_ASCII has any bytes.
        SqlState::CHARACTER_NOT_IN_REPERTOIRE => {
            let row = "the encoding of this database is SQL_ASCII, and a pending row has bytes that \
                       are no UTF-8: correct the row; postgres.source = \"stream\" delivers them \
                       as they are";
            unfit(table, &format!("PostgreSQL said {said}; {row}"))
        }
        // No statement of the router's needs a stack of that depth by itself.
        SqlState::STATEMENT_TOO_COMPLEX => {
            let key = "a pending row whose key is within JSON may have some that is nested too \
                       deeply: correct the row";
            unfit(table, &format!("PostgreSQL said {said}; {key}"))
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => standby(),
        SqlState::FEATURE_NOT_SUPPORTED if said.message.contains("during recovery") => standby(),
        // It passes when the other transaction ends.
        SqlState::LOCK_NOT_AVAILABLE => of_polled(Failure::of(Case::PolledLocked, what), table),
        SqlState::QUERY_CANCELED | SqlState::T_R_DEADLOCK_DETECTED => {
            Failure::new(Code::ServerUnreachable, what)
        }
        _ => with_message(sql_failure(error), what),
    }
}

/// What is written into the rows of a polled table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    /// That they are published, or failed.
    Marks,
    /// That this worker has them.
    Claims,
}

/// Classes of errors that no constraint or trigger of a table raises by itself (manual, "PostgreSQL
/// Error Codes"): of connections, of transactions, of the server's resources and state.
const OF_SERVER: [&str; 9] = ["08", "25", "40", "53", "55", "57", "58", "F0", "XX"];

/// The failure of a statement that writes into rows of a polled table.
pub(super) fn of_write(error: tokio_postgres::Error, table: &TableName, write: Write) -> Failure {
    let said = error.as_db_error().map(ServerMessage::from);
    let failure = of_table(error, table);
    let refusal = said.filter(|said| {
        failure.code == Code::ServerError
            && !OF_SERVER.iter().any(|class| said.code.starts_with(class))
    });
    let Some(said) = refusal else { return failure };
    let (case, what) = match write {
        Write::Marks => (Case::MarksRefused, "it refuses the marks of rows that are delivered"),
        Write::Claims => (Case::ClaimsRefused, "it refuses that rows are claimed"),
    };
    unfit(table, &format!("{what}: PostgreSQL said {said}")).with_case(case)
}

/// The failure of a statement about the tables by which workers share their work.
pub(super) fn of_lease(error: tokio_postgres::Error) -> Failure {
    let Some(server) = error.as_db_error() else { return sql_failure(error) };
    let what = format!(
        "outbox_router.lease and outbox_router.worker: PostgreSQL said {}",
        ServerMessage::from(server)
    );
    match *server.code() {
        SqlState::UNDEFINED_TABLE
        | SqlState::INVALID_SCHEMA_NAME
        | SqlState::INSUFFICIENT_PRIVILEGE
        // Made by hand, or by another version.
        | SqlState::UNDEFINED_COLUMN
        | SqlState::DATATYPE_MISMATCH
        | SqlState::UNDEFINED_FUNCTION
        | SqlState::INVALID_COLUMN_REFERENCE
        | SqlState::NOT_NULL_VIOLATION
        | SqlState::WRONG_OBJECT_TYPE => Failure::new(Code::LeaseTable, what),
        SqlState::READ_ONLY_SQL_TRANSACTION => standby(),
        SqlState::FEATURE_NOT_SUPPORTED if what.contains("during recovery") => standby(),
        // Two workers made the same shards at once, and one of them comes again.
        SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED | SqlState::T_R_DEADLOCK_DETECTED => {
            Failure::new(Code::ServerUnreachable, what)
        }
        _ => with_message(sql_failure(error), what),
    }
}

fn with_message(mut failure: Failure, what: String) -> Failure {
    failure.message = what;
    failure
}

/// An answer that no server gives.
pub(super) fn malformed(what: &str) -> Failure {
    Failure::new(Code::Protocol, format!("the answer to a statement of the polling source {what}"))
}
