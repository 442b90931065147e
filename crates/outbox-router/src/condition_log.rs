//! Log lines about a state, written only when it changes, so that the log stays short enough to be
//! read.

use relay::Failure;

use crate::codes::hint;

/// Remembers what was logged last.
#[derive(Debug, Default)]
pub(crate) struct ConditionLog {
    logged: Option<(&'static str, Option<String>)>,
}

/// The state in which a person is needed.
const FAILED: &str = "failed";

impl ConditionLog {
    /// Logs what changed. ERROR: somebody has to act. WARN: unusual, but handled. INFO: a change of
    /// state.
    pub(crate) fn announce(&mut self, state: &'static str, reason: Option<&Failure>) {
        let now = (state, reason.map(subject));
        if self.logged.as_ref() == Some(&now) {
            return;
        }
        self.logged = Some(now);
        let Some(reason) = reason else {
            tracing::info!(state, "the router is {state}");
            return;
        };
        let code = reason.code.as_str();
        let hint = hint(reason);
        let lsn = reason.lsn.map(tracing::field::display);
        let why = reason.message_with_causes();
        if state == FAILED {
            tracing::error!(state, code, hint, lsn, "the router failed: {why}");
        } else {
            tracing::warn!(state, code, hint, lsn, "the router is {state}: {why}");
        }
    }
}

/// A failure's code, message and causes without digits, so that a number that only grows (seconds
/// waited) causes no new log line.
pub(crate) fn subject(reason: &Failure) -> String {
    let message = reason.message_with_causes();
    let words: String = message.chars().filter(|c| !c.is_ascii_digit()).collect();
    format!("{} {words}", reason.code)
}
