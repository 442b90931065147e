//! Why a file cannot be read, and what to type.

use std::fmt;

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    /// Where, if it is at one place.
    pub line: Option<usize>,
    /// What is wrong; begins in lower case, no full stop.
    pub message: String,
    /// What to type.
    pub hint: String,
}

impl ReadError {
    pub(super) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { line: None, message: message.into(), hint: hint.into() }
    }

    pub(super) fn at(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for ReadError {}
