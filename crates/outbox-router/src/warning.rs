//! Logs a failure that stops nothing.

use relay::Failure;

/// Writes `failure` as a warning, with its code and its hint.
pub(crate) fn warn(failure: &Failure) {
    let Failure { code, message, hint, .. } = failure;
    tracing::warn!(code = code.as_str(), hint = hint.as_deref(), "{message}");
}
