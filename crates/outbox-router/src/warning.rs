//! A failure that stops nothing, in the log.

use relay::Failure;

/// Writes it as a warning, with its code and what to type.
pub(crate) fn warn(failure: &Failure) {
    let Failure { code, message, hint, .. } = failure;
    tracing::warn!(code = code.as_str(), hint = hint.as_deref(), "{message}");
}
