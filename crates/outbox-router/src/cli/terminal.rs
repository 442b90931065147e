//! Where a command reads and writes.

use std::io::{self, BufRead};

/// The streams of a command.
pub struct Terminal<'t> {
    /// The command's result.
    pub out: &'t mut (dyn io::Write + Send),
    /// Errors and their hints.
    pub err: &'t mut (dyn io::Write + Send),
    /// A person's answers.
    pub input: &'t mut (dyn BufRead + Send),
    /// Whether a person watches `out`.
    pub audience: Audience,
}

impl Terminal<'_> {
    /// Asks, and returns whether the answer is `expected`.
    ///
    /// # Errors
    /// The question cannot be written, or the answer cannot be read.
    pub(super) fn confirms(&mut self, expected: &str, question: &str) -> io::Result<bool> {
        write!(self.out, "{question}")?;
        self.out.flush()?;
        let mut answer = String::new();
        self.input.read_line(&mut answer)?;
        Ok(answer.trim() == expected)
    }
}

/// Who reads the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A person at a terminal.
    Person,
    /// A file or another program.
    Machine,
}
