//! How a failure is printed.

use std::io;

use relay::{Failure, OnError};
use serde_json::{Value, json};

use crate::codes::hint;

/// Prints a failure with its hint.
pub(super) fn print_failure(out: &mut dyn io::Write, failure: &Failure) -> io::Result<()> {
    writeln!(out, "error: {failure:#}")?;
    match hint(failure) {
        Some(hint) => writeln!(out, "  hint: {hint}"),
        None => Ok(()),
    }
}

/// The same for programs.
pub(super) fn failure_json(failure: &Failure) -> Value {
    json!({
        "code": failure.code.as_str(),
        "message": failure.message_with_causes(),
        "hint": hint(failure),
    })
}

/// What `run` does at a row that it cannot deliver, after "run would".
pub(super) const fn would(policy: OnError) -> &'static str {
    match policy {
        OnError::Halt => "stop",
        OnError::DeadLetter => "make it a dead letter",
    }
}
