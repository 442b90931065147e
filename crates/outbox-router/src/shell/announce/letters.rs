//! One line for each dead letter, and for each skipped row.

use relay::{NewLetter, SkippedRow};

/// Logs a dead letter, with the command that shows it. The line has neither key nor payload.
pub(in crate::shell) fn dead_letter(letter: &NewLetter) {
    let NewLetter { id, table, event_id, code, message } = letter;
    tracing::warn!(
        code = code.as_str(),
        %id,
        event_id,
        table,
        hint = format!("outbox-router dead-letters show --id {id}"),
        "an event is a dead letter: {message}"
    );
}

/// Logs a dead letter that was requeued and refused again.
pub(in crate::shell) fn refused_again(letter: &NewLetter) {
    let NewLetter { id, table, event_id, code, message } = letter;
    tracing::warn!(
        code = code.as_str(),
        %id,
        event_id,
        table,
        hint = format!("remove the cause, then requeue it again: outbox-router dead-letters show --id {id}"),
        "a dead letter was refused again: {message}"
    );
}

/// Logs a skipped row.
pub(in crate::shell) fn skipped(row: &SkippedRow) {
    let SkippedRow { id, table, event_id } = row;
    tracing::warn!(%id, event_id, table, "a row is skipped, as a person has decided");
}
