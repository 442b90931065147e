//! How a failure is printed for a person.

use std::io;

use relay::Failure;

/// Prints a failure with its hint.
pub(super) fn complain(out: &mut dyn io::Write, failure: &Failure) -> io::Result<()> {
    writeln!(out, "error: {failure}")?;
    match &failure.hint {
        Some(hint) => writeln!(out, "  hint: {hint}"),
        None => Ok(()),
    }
}
