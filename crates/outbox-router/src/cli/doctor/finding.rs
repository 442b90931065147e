//! What a check reports.

use std::fmt;

use relay::{Code, Failure, Names};

use crate::codes::{Advice, advised, explanation, hint};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The router does not start, or stops, or events do not arrive.
    Error,
    /// It works, and will not under a load, an outage or an attack that are to be expected.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// As printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) code: &'static str,
    /// What was found, and on which object.
    pub(super) message: String,
    /// The statement or command that mends it.
    pub(super) remedy: Option<String>,
}

impl Finding {
    /// What `run` would refuse or warn of.
    pub(super) fn of(failure: &Failure) -> Self {
        let severity = if failure.is_note() { Severity::Warning } else { Severity::Error };
        Self::with_severity(severity, failure)
    }

    /// What `run` would only warn of.
    pub(super) fn caution(failure: &Failure) -> Self {
        Self::with_severity(Severity::Warning, failure)
    }

    fn with_severity(severity: Severity, failure: &Failure) -> Self {
        Self {
            severity,
            code: failure.code.as_str(),
            message: failure.message_with_causes(),
            remedy: hint(failure),
        }
    }

    /// What nothing refuses; `names` is what the remedy names.
    pub(super) fn advice(
        severity: Severity,
        advice: Advice,
        message: impl Into<String>,
        names: &Names,
    ) -> Self {
        Self {
            severity,
            code: advice.as_str(),
            message: message.into(),
            remedy: Some(advised(advice, names)),
        }
    }

    /// Why it matters.
    pub(super) fn why(&self) -> &'static str {
        explanation(self.code).map_or("", |explanation| explanation.meaning)
    }

    pub(super) fn is(&self, code: Code) -> bool {
        self.code == code.as_str()
    }
}
