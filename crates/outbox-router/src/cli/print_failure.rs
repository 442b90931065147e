//! How a failure is printed for a person.

use std::io;

use relay::Failure;

use crate::codes::hint;

/// Prints a failure with its hint.
pub(super) fn print_failure(out: &mut dyn io::Write, failure: &Failure) -> io::Result<()> {
    writeln!(out, "error: {failure:#}")?;
    match hint(failure) {
        Some(hint) => writeln!(out, "  hint: {hint}"),
        None => Ok(()),
    }
}
