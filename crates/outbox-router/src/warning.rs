//! Logs a failure that stops nothing.

use relay::Failure;

use crate::codes::hint;

/// Writes `failure` as a warning, with its code, its causes and its hint.
pub(crate) fn warn(failure: &Failure) {
    let code = failure.code.as_str();
    tracing::warn!(code, hint = hint(failure), "{}", failure.message_with_causes());
}
