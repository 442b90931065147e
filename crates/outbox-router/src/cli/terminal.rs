//! Where a command reads and writes.

use std::io::{self, BufRead};

/// What a command is given of the outside.
pub struct Terminal<'t> {
    /// What was asked for.
    pub out: &'t mut (dyn io::Write + Send),
    /// What went wrong.
    pub err: &'t mut (dyn io::Write + Send),
    /// Answers of a person.
    pub input: &'t mut (dyn BufRead + Send),
    /// Whether a person watches `out`.
    pub audience: Audience,
}

/// Who reads the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A person at a terminal.
    Person,
    /// A file or another program.
    Machine,
}
