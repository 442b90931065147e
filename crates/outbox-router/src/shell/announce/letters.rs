//! One line for each dead letter.

use relay::NewLetter;

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
