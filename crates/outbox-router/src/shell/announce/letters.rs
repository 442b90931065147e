//! One line for each dead letter, and for each skipped row.

use relay::{NewLetter, SkippedRow};

/// Logs a dead letter, with the command that shows it.
pub(in crate::shell) fn dead_letter(letter: &NewLetter) {
    warn_of(letter, "an event is a dead letter", "");
}

/// Logs a dead letter that was requeued and refused again.
pub(in crate::shell) fn refused_again(letter: &NewLetter) {
    let first = "remove the cause, then requeue it again: ";
    warn_of(letter, "a dead letter was refused again", first);
}

/// The line has neither key nor payload.
fn warn_of(letter: &NewLetter, what: &str, first: &str) {
    let NewLetter { id, table, event_id, code, message } = letter;
    tracing::warn!(
        code = code.as_str(),
        %id,
        event_id,
        table,
        hint = format!("{first}outbox-router dead-letters show --id {id}"),
        "{what}: {message}"
    );
}

/// Logs a skipped row.
pub(in crate::shell) fn skipped(row: &SkippedRow) {
    let SkippedRow { id, table, event_id } = row;
    tracing::warn!(%id, event_id, table, "a row is skipped, as a person has decided");
}
