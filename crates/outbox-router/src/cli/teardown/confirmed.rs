//! A person confirms what is dropped by its name.

use std::io;

use crate::cli::{Audience, Terminal};

/// Asks. Where the answer is another one, says that nothing was dropped.
pub(super) fn is_confirmed(
    name: &str,
    question: &str,
    terminal: &mut Terminal<'_>,
) -> io::Result<bool> {
    if terminal.confirms(name, question)? {
        return Ok(true);
    }
    writeln!(terminal.err, "nothing was dropped")?;
    if terminal.audience == Audience::Machine {
        writeln!(terminal.err, "  hint: outbox-router teardown --apply --yes asks nobody")?;
    }
    Ok(false)
}
